//! `arbe codec check`: does every value of a client's sessions survive?

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use codecs::check::{self, Difference};
use codecs::fault::Fault;
use serde_json::json;

use crate::args::{CodecCheck, CodecVerb};
use crate::{exit, output};

pub(super) fn run(verb: CodecVerb, json: bool) -> anyhow::Result<ExitCode> {
    match verb {
        CodecVerb::Check(args) => check(&args, json),
    }
}

fn check(args: &CodecCheck, json: bool) -> anyhow::Result<ExitCode> {
    let codec = super::codec(&args.client)?;
    let (mut files, mut equal, mut differences, mut faults) = (0_u64, 0_u64, Vec::new(), Vec::new());
    for path in &args.paths {
        let bundles = codec.parse.discover(path).with_context(|| path.display().to_string())?;
        for bundle in bundles {
            let scratch = tempfile::tempdir()?;
            let (found, wrong) = check::examine(codec, &bundle, scratch.path())?;
            files += 1;
            equal += u64::from(found.is_empty());
            if !json {
                say(bundle.main(), &found, &wrong)?;
            }
            differences.extend(found);
            faults.extend(wrong.iter().map(ToString::to_string));
        }
    }
    if json {
        let differences: Vec<_> = differences.iter().map(|it| json!({ "file": it.file, "what": it.what })).collect();
        output::print_json(&json!({ "files": files, "equal": equal, "differences": differences, "faults": faults }))?;
    } else {
        output::print(format!("{equal} of {files} equal\n"))?;
    }
    Ok(if equal == files { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn say(file: &Path, differences: &[Difference], faults: &[Fault]) -> anyhow::Result<()> {
    let verdict = if differences.is_empty() { "equal" } else { "DIFFERS" };
    let count = if faults.is_empty() { String::new() } else { format!(" ({} faults in the source)", faults.len()) };
    output::print(format!("{verdict} {}{count}\n", file.display()))?;
    faults.iter().try_for_each(|it| output::print(format!("  source: {}\n", output::clean(&it.to_string()))))?;
    differences.iter().try_for_each(|it| output::print(format!("  {}: {}\n", it.file, output::clean(&it.what))))
}
