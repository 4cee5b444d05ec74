//! Addresses that are not public: whoever asks for them asks for this machine or its neighbours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The networks of IPv4 that are not public, and what they are, as IANA lists them.
const SPECIAL_V4: &[(Ipv4Net, &str)] = &[
    (v4(0, 0, 0, 0, 8), "this machine"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(100, 64, 0, 0, 10), "shared by customers of a provider"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    (v4(169, 254, 0, 0, 16), "link-local, where clouds keep their metadata"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "set aside for protocols"),
    (v4(192, 0, 2, 0, 24), "for documentation"),
    (v4(192, 31, 196, 0, 24), "set aside for protocols"),
    (v4(192, 52, 193, 0, 24), "set aside for protocols"),
    (v4(192, 88, 99, 0, 24), "a relay of 6to4"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(192, 175, 48, 0, 24), "set aside for protocols"),
    (v4(198, 18, 0, 0, 15), "for benchmarks"),
    (v4(198, 51, 100, 0, 24), "for documentation"),
    (v4(203, 0, 113, 0, 24), "for documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(240, 0, 0, 0, 4), "reserved or broadcast"),
];

/// All of IPv6 that is handed out to be public.
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 0, 3);

/// The networks within it that are not public, and what they are.
const SPECIAL_V6: &[(Ipv6Net, &str)] = &[
    (v6(0x2001, 0, 0, 32), "a tunnel (Teredo)"),
    (v6(0x2001, 0, 0, 23), "set aside for protocols"),
    (v6(0x2001, 0xdb8, 0, 32), "for documentation"),
    (v6(0x2620, 0x4f, 0x8000, 48), "set aside for protocols"),
    (v6(0x3fff, 0, 0, 20), "for documentation"),
];

/// The networks outside of it, for messages; the rest is not handed out.
const LOCAL_V6: &[(Ipv6Net, &str)] = &[
    (v6(0x64, 0xff9b, 1, 48), "a local translation to IPv4"),
    (v6(0x100, 0, 0, 64), "discarded"),
    (v6(0x5f00, 0, 0, 16), "set aside for routing"),
    (v6(0xfc00, 0, 0, 7), "private"),
    (v6(0xfe80, 0, 0, 10), "link-local"),
    (v6(0xfec0, 0, 0, 10), "site-local"),
    (v6(0xff00, 0, 0, 8), "multicast"),
];

/// Addresses that stand for one of IPv4: those with a mapping, and those of translators.
const MAPPED: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 0, 96);
const SIX_TO_FOUR: Ipv6Net = v6(0x2002, 0, 0, 16);

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(a: u16, b: u16, c: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

/// Passes an address that is public or within one of some networks; the error says what it is.
pub(super) fn check(address: IpAddr, nets: &[IpNet]) -> Result<(), String> {
    let plain = unwrapped(address);
    if nets.iter().any(|net| net.contains(&address) || net.contains(&plain)) {
        return Ok(());
    }
    let Some(what) = special(plain) else { return Ok(()) };
    let stands = if plain == address { String::new() } else { format!(", that is {plain}") };
    Err(format!("the address {address}{stands} is not public but {what}"))
}

/// Returns the address of IPv4 that one of IPv6 stands for.
fn unwrapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [_, a, b, _, _, _, c, d] = v6.segments();
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    if MAPPED.contains(&v6) || NAT64.contains(&v6) {
        of(c, d)
    } else if SIX_TO_FOUR.contains(&v6) {
        of(a, b)
    } else {
        address
    }
}

/// Says what an address is if it is not public.
fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => {
            SPECIAL_V4.iter().find(|(net, _)| net.contains(&v4)).map(|(_, what)| *what)
        }
        IpAddr::V6(v6) if v6.is_unspecified() => Some("this machine"),
        IpAddr::V6(v6) if v6.is_loopback() => Some("loopback"),
        IpAddr::V6(v6) => {
            let known = SPECIAL_V6.iter().chain(LOCAL_V6).find(|(net, _)| net.contains(&v6));
            let rest = (!GLOBAL_V6.contains(&v6)).then_some("not handed out to anybody");
            known.map(|(_, what)| *what).or(rest)
        }
    }
}
