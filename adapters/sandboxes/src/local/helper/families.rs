//! Which kinds of sockets there are in a machine. Its own network holds those of the internet, but not all kinds belong to a network:
//! one of them reaches the host that a virtual machine runs on. So all others are refused, by a filter of system calls.

/// As the kernel numbers them: of this host, of the internet in both versions, and what asks for the interfaces that there are.
const OPEN: [u32; 4] = [1, 2, 10, 16];

/// One step of a filter as the kernel reads it: `struct sock_filter`.
#[derive(Clone, Copy, Debug)]
struct Step {
    code: u16,
    /// How many steps are passed over if it holds, and if not.
    holds: u8,
    fails: u8,
    value: u32,
}

const LOAD: u16 = 0x20;
const EQUALS: u16 = 0x15;
const AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

// Where things are in what a filter is shown of a call. The first argument counts with its lower half, as it does for the kernel.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

const ALLOW: u32 = 0x7fff_0000;
/// With `EAFNOSUPPORT`, as a kernel answers that does not know the family.
const REFUSE: u32 = 0x0005_0000 | 97;

/// Calls above are those of a third kind of programs on x86-64. There are none elsewhere.
const X32: u32 = 0x4000_0000;
/// One call for all that sockets do, with its arguments in memory, where no filter sees them. Old programs have another.
const SOCKETCALL: u32 = 102;
/// Opens a queue through which sockets are made without a call. The same number everywhere.
const IO_URING_SETUP: u32 = 425;

/// The numbers of programs of this host, and of those of 32 bits that it can run too.
#[derive(Clone, Copy)]
struct Numbers {
    architecture: u32,
    socket: u32,
    short_architecture: u32,
    short_socket: u32,
}

fn numbers(architecture: &str) -> Option<Numbers> {
    match architecture {
        "x86_64" => Some(Numbers { architecture: 0xc000_003e, socket: 41, short_architecture: 0x4000_0003, short_socket: 359 }),
        "aarch64" => Some(Numbers { architecture: 0xc000_00b7, socket: 198, short_architecture: 0x4000_0028, short_socket: 281 }),
        _ => None,
    }
}

/// For `--seccomp` of bubblewrap. None where the numbers are not known.
pub(super) fn filter() -> Option<Vec<u8>> {
    let written = |step: Step| {
        let [a, b] = step.code.to_ne_bytes();
        let [c, d, e, f] = step.value.to_ne_bytes();
        [a, b, step.holds, step.fails, c, d, e, f]
    };
    Some(steps(numbers(std::env::consts::ARCH)?).into_iter().flat_map(written).collect())
}

fn steps(numbers: Numbers) -> [Step; 18] {
    let step = |code, value, holds, fails| Step { code, holds, fails, value };
    let load = |value| step(LOAD, value, 0, 0);
    let family = |at: usize, holds, fails| step(EQUALS, OPEN[at], holds, fails);
    [
        load(ARCHITECTURE),
        step(EQUALS, numbers.architecture, 0, 4),
        load(NUMBER),
        step(AT_LEAST, X32, 13, 0),
        step(EQUALS, IO_URING_SETUP, 12, 0),
        step(EQUALS, numbers.socket, 5, 10),
        step(EQUALS, numbers.short_architecture, 0, 10),
        load(NUMBER),
        step(EQUALS, IO_URING_SETUP, 8, 0),
        step(EQUALS, SOCKETCALL, 7, 0),
        step(EQUALS, numbers.short_socket, 0, 5),
        load(FIRST_ARGUMENT),
        family(0, 3, 0),
        family(1, 2, 0),
        family(2, 1, 0),
        family(3, 0, 1),
        step(RETURN, ALLOW, 0, 0),
        step(RETURN, REFUSE, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel goes through it.
    fn answer(numbers: Numbers, architecture: u32, number: u32, argument: u32) -> u32 {
        let (steps, mut at, mut loaded) = (steps(numbers), 0, 0);
        loop {
            let Step { code, holds, fails, value } = steps[at];
            at += 1;
            let passed = |held: bool| usize::from(if held { holds } else { fails });
            match code {
                LOAD => loaded = [number, architecture, 0, 0, argument][value as usize / 4],
                EQUALS => at += passed(loaded == value),
                AT_LEAST => at += passed(loaded >= value),
                RETURN => return value,
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn four_families_are_let_through_and_no_other() {
        for numbers in ["x86_64", "aarch64"].map(|name| numbers(name).unwrap()) {
            for (architecture, socket) in
                [(numbers.architecture, numbers.socket), (numbers.short_architecture, numbers.short_socket)]
            {
                for family in 0..64 {
                    let expected = if OPEN.contains(&family) { ALLOW } else { REFUSE };
                    assert_eq!(answer(numbers, architecture, socket, family), expected, "{family}");
                }
                assert_eq!(answer(numbers, architecture, IO_URING_SETUP, 0), REFUSE);
                for other in [0, 3, 53, 60, 231, 424, 426] {
                    assert_eq!(answer(numbers, architecture, other, 40), ALLOW, "no other call is looked at: {other}");
                }
            }
        }
    }

    #[test]
    fn there_is_no_other_way_to_a_socket() {
        let numbers = numbers("x86_64").unwrap();
        assert_eq!(answer(numbers, numbers.architecture, X32 | 41, 2), REFUSE);
        assert_eq!(answer(numbers, numbers.short_architecture, SOCKETCALL, 1), REFUSE);
        assert_eq!(answer(numbers, numbers.architecture, SOCKETCALL, 40), ALLOW, "another call there");
        assert_eq!(answer(numbers, 7, 41, 2), REFUSE);
    }
}
