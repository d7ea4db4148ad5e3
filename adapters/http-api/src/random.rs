//! Chance, for what nobody may guess and for what must not coincide.

#[expect(clippy::disallowed_methods, reason = "the home of chance in this crate")]
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system has entropy");
    bytes
}
