use super::*;

/// Written once and kept: values that were sealed then open now.
const GOLDEN: &str = include_str!("../../fixtures/value-v1.hex");
const VALUE: &[u8] = "sk-golden-ü".as_bytes();

struct Names {
    house: HouseId,
    secret: SecretId,
}

fn names(house: &str, secret: &str) -> Names {
    Names { house: HouseId::new(house).unwrap(), secret: SecretId::new(secret).unwrap() }
}

impl Names {
    fn at(&self, at: u128) -> Place<'_> {
        Place { house: &self.house, secret: &self.secret, at: Uuid::from_u128(at) }
    }
}

fn master(byte: u8) -> MasterKey {
    MasterKey::new(&[byte; KEY])
}

fn golden() -> Vec<u8> {
    let digits: String = GOLDEN.split_whitespace().collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn open(bytes: &[u8], master: &MasterKey, place: Place<'_>) -> Result<Vec<u8>, Broken> {
    Sealed::parse(bytes)?.open(master, place).map(|value| value.expose().to_vec())
}

#[test]
fn the_first_form_is_sealed_and_opened_to_the_byte() {
    let names = names("h1", "s1");
    let drawn = Drawn { data_key: Zeroizing::new([9; KEY]), key_nonce: [3; NONCE_LEN], value_nonce: [5; NONCE_LEN] };
    let sealed = seal(&master(7), names.at(11), VALUE, &drawn);
    assert_eq!(sealed, golden());
    assert_eq!(open(&golden(), &master(7), names.at(11)).unwrap(), VALUE);
}

#[test]
fn a_change_of_any_bit_is_noticed_and_so_is_any_cut() {
    let names = names("h1", "s1");
    let golden = golden();
    for at in 0..golden.len() {
        for bit in 0..8 {
            let mut changed = golden.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(open(&changed, &master(7), names.at(11)), Err(Broken), "byte {at} bit {bit}");
        }
        assert_eq!(open(&golden[..at], &master(7), names.at(11)), Err(Broken), "cut at {at}");
    }
    assert_eq!(open(&[golden.as_slice(), b"x"].concat(), &master(7), names.at(11)), Err(Broken));
}

#[test]
fn nothing_opens_under_another_house_secret_version_or_key() {
    let golden = golden();
    for (house, secret, at) in [("h2", "s1", 11), ("h1", "s2", 11), ("h1", "s1", 12), ("h", "1s1", 11)] {
        assert_eq!(open(&golden, &master(7), names(house, secret).at(at)), Err(Broken), "{house} {secret} {at}");
    }
    assert_eq!(open(&golden, &master(8), names("h1", "s1").at(11)), Err(Broken));
}

#[test]
fn another_master_takes_over_and_the_sealed_value_stays_as_it_is() {
    let names = names("h1", "s1");
    let golden = golden();
    let sealed = Sealed::parse(&golden).unwrap();
    let again = sealed.rewrap(&master(7), &master(8), names.at(11)).unwrap();
    assert_eq!(open(&again, &master(8), names.at(11)).unwrap(), VALUE);
    assert_eq!(open(&again, &master(7), names.at(11)), Err(Broken));
    assert_eq!(Sealed::parse(&again).unwrap().body, sealed.body);
    assert_eq!(again.len(), golden.len());
    assert!(sealed.rewrap(&master(9), &master(8), names.at(11)).is_err());
}

#[test]
fn two_sealings_of_one_value_have_nothing_in_common() {
    let names = names("h1", "s1");
    let [a, b] = [(); 2].map(|()| seal(&master(7), names.at(11), VALUE, &Drawn::new()));
    let (a, b) = (Sealed::parse(&a).unwrap(), Sealed::parse(&b).unwrap());
    assert!(a.wrapped != b.wrapped && a.body != b.body && a.key_nonce != b.key_nonce);
}
