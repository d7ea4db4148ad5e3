//! Chance, for keys and nonces.

use zeroize::Zeroizing;

pub(crate) fn bytes<const N: usize>() -> Zeroizing<[u8; N]> {
    let mut bytes = Zeroizing::new([0; N]);
    aws_lc_rs::rand::fill(&mut *bytes).expect("the operating system has entropy");
    bytes
}
