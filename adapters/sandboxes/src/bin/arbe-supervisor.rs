//! Stands between the server and one process of a local machine: see `sandboxes::local::helper`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sandboxes::local::helper::main()
}
