//! Each machine is a user of the host by itself, so that nothing of one is in reach of another.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use super::procs;

/// A user that no other machine has. One who asks twice gets the same.
///
/// `apart` tells directories of machines apart: servers that know nothing of each other begin their search at other places, and no user
/// that has processes is taken.
pub(crate) fn claim(directory: &Path, users: &Range<u32>, machine: &str, apart: &str) -> io::Result<u32> {
    fs::create_dir_all(directory)?;
    let start = apart.bytes().chain(machine.bytes()).fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let count = users.end.saturating_sub(users.start);
    for step in 0..count {
        let user = users.start + start.wrapping_add(step) % count;
        let path = directory.join(user.to_string());
        if !path.exists() && !procs::of_user(user).is_empty() {
            continue;
        }
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(machine.as_bytes())?;
                return Ok(user);
            }
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) if fs::read(&path)? == machine.as_bytes() => return Ok(user),
            Err(_) => {}
        }
    }
    Err(io::Error::other("there are as many machines as users set apart for them"))
}

/// The user of a machine, if it has claimed one.
pub(crate) fn claimed(directory: &Path, machine: &str) -> Option<u32> {
    let entries = fs::read_dir(directory).ok()?;
    entries.filter_map(Result::ok).find_map(|entry| {
        let user = entry.file_name().to_str()?.parse().ok()?;
        (fs::read(entry.path()).ok()? == machine.as_bytes()).then_some(user)
    })
}

pub(crate) fn release(directory: &Path, user: u32) -> io::Result<()> {
    match fs::remove_file(directory.join(user.to_string())) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_machines_are_one_user() {
        let directory = tempfile::tempdir().unwrap();
        let users = 1_800_000_000..1_800_000_003;
        let claim = |machine| claim(directory.path(), &users, machine, "here");
        let mut all: Vec<_> = ["a", "b", "c"].map(|machine| claim(machine).unwrap()).into();
        assert_eq!(claim("b").unwrap(), all[1]);
        assert_eq!(claimed(directory.path(), "c"), Some(all[2]));
        assert!(claim("d").is_err());
        release(directory.path(), all[0]).unwrap();
        assert_eq!(claim("d").unwrap(), all[0]);
        all.sort_unstable();
        assert_eq!(all, users.clone().collect::<Vec<_>>());
    }
}
