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

/// Users between those that hosts hand out themselves: to packages and people, and to services and nobody.
const FREE: [Range<u32>; 2] = [20_000..60_000, 65_536..u32::MAX - 1];
/// With fewer there would soon be no user for a machine.
const FEWEST: u32 = 1_000;

/// The users that machines can be here. In a container few of them may be known, and others cannot be had.
pub(crate) fn set_apart(wanted: &Range<u32>) -> io::Result<Option<Range<u32>>> {
    Ok(within(wanted, &known(&fs::read_to_string("/proc/self/uid_map")?), &known(&fs::read_to_string("/proc/self/gid_map")?)))
}

/// As wanted, else the last of the longest stretch that is free.
fn within(wanted: &Range<u32>, users: &[Range<u32>], groups: &[Range<u32>]) -> Option<Range<u32>> {
    // A machine's user has a group of the same number.
    let both: Vec<_> = users.iter().flat_map(|user| groups.iter().map(move |group| common(user, group))).collect();
    if both.iter().any(|both| both.start <= wanted.start && wanted.end <= both.end) {
        return Some(wanted.clone());
    }
    let free = both.iter().flat_map(|both| FREE.map(|free| common(&free, both)));
    let longest = free.max_by_key(Range::len).filter(|longest| longest.end.saturating_sub(longest.start) >= FEWEST)?;
    let count = wanted.end.saturating_sub(wanted.start);
    Some(longest.start.max(longest.end.saturating_sub(count))..longest.end)
}

fn common(one: &Range<u32>, other: &Range<u32>) -> Range<u32> {
    one.start.max(other.start)..one.end.min(other.end)
}

/// As the kernel tells it: the first in here, the first out there, how many.
fn known(map: &str) -> Vec<Range<u32>> {
    let stretch = |line: &str| {
        let mut fields = line.split_whitespace().map(str::parse::<u32>);
        let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) = (fields.next(), fields.next(), fields.next()) else { return None };
        Some(first..first.saturating_add(count))
    };
    map.lines().filter_map(stretch).collect()
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
    fn machines_are_users_that_are_known_here_and_nobody_elses() {
        let all = "         0          0 4294967295\n";
        let wanted = 1_900_000_000..1_900_065_536;
        for (users, groups, expected) in [
            (all, all, Some(wanted.clone())),
            ("0 100000 65536", "0 100000 65536", Some(20_000..60_000)),
            ("0 1000 1\n1 100000 65536", "0 1000 1\n1 100000 65536", Some(20_000..60_000)),
            ("0 100000 65536", all, Some(20_000..60_000)),
            ("0 100000 1000000", "0 100000 1000000", Some(934_464..1_000_000)),
            ("0 0 1000\n1000 2000000000 100000", all, Some(20_000..60_000)),
            ("0 1000 1", "0 1000 1", None),
            ("0 1000 20500", all, None),
            (all, "0 0 1", None),
            ("", "", None),
        ] {
            assert_eq!(within(&wanted, &known(users), &known(groups)), expected, "{users} {groups}");
        }
    }

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
