//! What becomes of a test on a machine without Postgres.

use std::io::Write;

use postgres_rows::ClusterError;

/// It fails, unless `ARBE_SKIP_POSTGRES=1` says that this is known: then it is skipped, and says so.
#[expect(clippy::disallowed_methods, reason = "who runs the tests says so in the environment")]
pub fn unless_missing<T>(found: Result<T, ClusterError>) -> Option<T> {
    let error = match found {
        Ok(found) => return Some(found),
        Err(error) => error,
    };
    let skip = std::env::var_os("ARBE_SKIP_POSTGRES").is_some_and(|set| set == "1");
    assert!(skip && matches!(error, ClusterError::NoBinaries { .. }), "{error}\nor skip what needs it with ARBE_SKIP_POSTGRES=1");
    // Past the harness, which keeps to itself what a test that passes prints.
    let _ = writeln!(std::io::stderr(), "skipped: {error}");
    None
}
