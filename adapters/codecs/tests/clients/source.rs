use std::io::Write;
use std::path::Path;

use crate::support::Files;
use codecs::fault::What;
use codecs::source::{LINE_MAX, Records};

fn read(body: impl AsRef<[u8]>) -> Vec<String> {
    let files = Files::of(&[("f.jsonl", body)]);
    let shown = |record: Result<codecs::seam::Record, (codecs::fault::Location, What)>| match record {
        Ok(record) => format!("{} {}", record.location(), record.look()),
        Err((location, what)) => format!("{location} ! {what}"),
    };
    Records::open(files.0.path(), Path::new("f.jsonl")).map(shown).collect()
}

#[test]
fn a_file_is_read_value_by_value() {
    assert_eq!(read("{\"a\":1}{\"b\":2}\r\n\n[3]"), ["f.jsonl:1 {\"a\":1}", "f.jsonl:1 {\"b\":2}", "f.jsonl:3 [3]"]);
    assert_eq!(read("\u{feff}1\n2"), ["f.jsonl:1 1", "f.jsonl:2 2"]);
    assert!(read("").is_empty());
}

/// `adapter-integrity-no-silent-drops`
#[test]
fn what_cannot_be_read_is_told_and_reading_goes_on() {
    let faults = [
        "f.jsonl:1 ! not JSON: cut off at byte 3",
        "f.jsonl:2 ! not UTF-8",
        "f.jsonl:3 1",
        "f.jsonl:3 ! not JSON: not a value at byte 2",
    ];
    assert_eq!(read(b"[1\n\xff\n1 x\n"), faults);
    let missing: Vec<_> = Records::open(Path::new("/nowhere"), Path::new("f.jsonl")).collect();
    assert!(matches!(&missing[..], [Err((location, What::Unreadable(_)))] if location.line.is_none()));
}

#[test]
fn a_packed_file_that_is_cut_off_is_told_after_what_is_there() {
    let lines: String = (0..200_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    let packed = zstd::encode_all(lines.as_bytes(), 1).unwrap();
    let files = Files::of(&[("f.jsonl.zst", &packed[..packed.len() - packed.len() / 4]), ("g.jsonl.zst", &packed[..])]);
    let records: Vec<_> = Records::open(files.0.path(), Path::new("f.jsonl.zst")).collect();
    let (last, rest) = records.split_last().unwrap();
    assert!(matches!(last, Err((location, What::Unreadable(_))) if location.line == Some(rest.len() as u64 + 1)), "{last:?}");
    assert!(!rest.is_empty() && rest.iter().all(Result::is_ok));
    assert_eq!(Records::open(files.0.path(), Path::new("g.jsonl.zst")).filter(Result::is_ok).count(), 200_000);
}

/// The 200 MB come out of a small packed file, and the reader runs in a process of its own, whose memory is its alone.
#[test]
fn a_line_of_200_mb_is_passed_over_in_bounded_memory() {
    const LONG: u64 = 200_000_000;
    if let Some(root) = std::env::var_os("ARBE_TEST_LONG_LINE") {
        let records: Vec<_> = Records::open(Path::new(&root), Path::new("f.jsonl.zst")).collect();
        let [Ok(_), Err((location, What::LineTooLong { bytes })), Ok(after)] = &records[..] else { panic!("{records:?}") };
        assert_eq!((location.line, *bytes, after.look().to_string().as_str()), (Some(2), LONG + 1, "{\"after\":1}"));
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB").to_owned();
        let peak: u64 = peak.trim().parse().unwrap();
        assert!(peak * 1024 < LINE_MAX + (64 << 20), "{peak} kB");
        return;
    }
    if !Path::new("/proc/self/status").exists() {
        eprintln!("skipped: no /proc");
        return;
    }
    let files = Files::of(&[("none", "")]);
    let file = std::fs::File::create(files.0.path().join("f.jsonl.zst")).unwrap();
    let mut packed = zstd::Encoder::new(file, 1).unwrap();
    packed.write_all(b"{\"before\":1}\n\"").unwrap();
    std::io::copy(&mut std::io::Read::take(std::io::repeat(b'x'), LONG - 2), &mut packed).unwrap();
    packed.write_all(b"\"\n{\"after\":1}\n").unwrap();
    packed.finish().unwrap();
    let name = "source::a_line_of_200_mb_is_passed_over_in_bounded_memory";
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", name]).env("ARBE_TEST_LONG_LINE", files.0.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
