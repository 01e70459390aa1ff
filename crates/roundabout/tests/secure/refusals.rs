//! The members that are refused, and the reasons that each side gets.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use annulus_roundabout::secure::{Identity, Refusal, Role, SecureError, accept_within, connect_within};
use rand::{Rng, SeedableRng, rngs::StdRng};
use rustls::{
    AlertDescription as Alert, Error as TlsError,
    version::{TLS12, TLS13},
};

use crate::common::{
    Credentials, LONG, Ring, SHORT, accept_from, client, client_for, connect_to, host, meet, name, order, run,
    self_signed, server, sockets,
};

#[test]
fn hosts_of_a_ring_meet_and_know_each_other() {
    let ring = Ring::new("one");
    let (connected, accepted) = meet(&ring.identity("a"), "b", &ring.identity("b"));
    assert_eq!(*connected.unwrap().peer(), host("b"));
    let (secure, peer) = accepted.unwrap();
    assert_eq!((&peer, secure.peer()), (&host("a"), &host("a")));
}

#[test]
fn the_wrong_host_of_the_right_ring() {
    let ring = Ring::new("one");
    let (connected, accepted) = meet(&ring.identity("a"), "b", &ring.identity("c"));
    let error = connected.unwrap_err();
    let refusal = Refusal::WrongHost { expected: host("b"), found: host("c") };
    assert!(matches!(&error, SecureError::Refused(found) if *found == refusal), "{error}");
    let error = accepted.unwrap_err();
    assert!(matches!(error, SecureError::RefusedUs(Alert::AccessDenied)), "{error}");
}

/// A submitter orders hosts, which accept orders from nobody else. It cannot take a host's place.
#[test]
fn members_keep_to_their_roles() {
    let ring = Ring::new("one");
    let (a, b, submitter) = (ring.identity("a"), ring.identity("b"), ring.submitter("b"));
    assert_eq!(submitter.member().to_string(), "submitter b of ring one");
    let (connected, accepted) = order(&submitter, "a", &a);
    assert_eq!(*connected.unwrap().peer(), host("a"));
    assert_eq!(accepted.unwrap().1, host("b"));

    let is_role = |error: &SecureError, role: Role| match error {
        SecureError::Refused(Refusal::WrongRole { expected, .. }) => *expected == role,
        _ => false,
    };
    let (connected, accepted) = order(&b, "a", &a);
    assert!(matches!(connected.unwrap_err(), SecureError::RefusedUs(Alert::AccessDenied)));
    let error = accepted.unwrap_err();
    assert!(is_role(&error, Role::Submitter), "{error}");
    let (_, accepted) = meet(&submitter, "a", &a);
    assert!(is_role(&accepted.unwrap_err(), Role::Host));
    let (connected, _) = meet(&a, "b", &submitter);
    let error = connected.unwrap_err();
    assert!(is_role(&error, Role::Host), "{error}");
    assert!(error.to_string().contains("it is that of submitter b, and this connection is for a host"), "{error}");
}

#[test]
fn hosts_of_other_rings() {
    let ring = Ring::new("one");
    let identity = ring.identity("a");
    for other in [Ring::new("two"), Ring::new("one")] {
        let (connected, accepted) = meet(&identity, "b", &other.identity("b"));
        let error = connected.unwrap_err();
        let SecureError::Refused(Refusal::Stranger { claim: Some(claim), .. }) = &error else { panic!("{error}") };
        assert_eq!((claim.ring.as_str(), &claim.host), (other.authority.ring().as_str(), &host("b")));
        let claim = match other.authority.ring().as_str() {
            "one" => "by another authority of the same name; it names host b;",
            _ => "it names host b of ring two;",
        };
        let text = error.to_string();
        assert!(text.contains(claim) && text.contains("must come from one authority: copy them again"), "{text}");
        let error = accepted.unwrap_err();
        assert!(matches!(error, SecureError::RefusedUs(Alert::UnknownCA)), "{error}");
        assert!(error.to_string().ends_with("copy them again"), "{error}");
    }
}

/// Checks that a peer with these credentials is refused for this reason and gets the alert, on
/// either side.
fn refused(identity: &Identity, peer: &Credentials, expected: impl Fn(&Refusal) -> bool, told: Alert) {
    let (connected, alert) = connect_to(identity, LONG, |socket| run(&mut server(peer, &TLS13), socket));
    let error = connected.unwrap_err();
    assert!(matches!(&error, SecureError::Refused(refusal) if expected(refusal)), "{error}");
    assert_eq!(alert, Some(TlsError::AlertReceived(told)));

    let (accepted, alert) = accept_from(identity, LONG, |socket| run(&mut client(Some(peer), &TLS13), socket));
    let error = accepted.unwrap_err();
    assert!(matches!(&error, SecureError::Refused(refusal) if expected(refusal)), "{error}");
    assert_eq!(alert, Some(TlsError::AlertReceived(told)));
}

#[test]
fn strangers() {
    let ring = Ring::new("one");
    let identity = ring.identity("a");
    for uri in ["annulus://one/b", "https://example.org/"] {
        refused(&identity, &self_signed(uri), |refusal| matches!(refusal, Refusal::Stranger { .. }), Alert::UnknownCA);
    }
    let other = Ring::new("two").issue(|params| name(params, "annulus://one/b"));
    refused(&identity, &other, |refusal| matches!(refusal, Refusal::Stranger { .. }), Alert::UnknownCA);
}

#[test]
fn certificates_out_of_their_time() {
    let ring = Ring::new("one");
    let identity = ring.identity("a");
    let over = ring.issue(|params| {
        name(params, "annulus://one/b");
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    refused(&identity, &over, |refusal| matches!(refusal, Refusal::Expired { .. }), Alert::CertificateExpired);
    let early = ring.issue(|params| {
        name(params, "annulus://one/b");
        params.not_before = rcgen::date_time_ymd(3001, 1, 1);
        params.not_after = rcgen::date_time_ymd(3002, 1, 1);
    });
    refused(&identity, &early, |refusal| matches!(refusal, Refusal::NotYetValid { .. }), Alert::CertificateExpired);
}

#[test]
fn certificates_of_the_authority_that_name_no_host_of_the_ring() {
    let ring = Ring::new("one");
    let identity = ring.identity("a");
    for uri in ["annulus://two/b", "annulus://one", "annulus://one/", "annulus://one/b/c", "https://one/b"] {
        let credentials = ring.issue(|params| name(params, uri));
        refused(&identity, &credentials, |refusal| matches!(refusal, Refusal::NotOfRing { .. }), Alert::AccessDenied);
    }
}

#[test]
fn certificates_for_something_else() {
    let ring = Ring::new("one");
    let identity = ring.identity("a");
    let credentials = ring.issue(|params| {
        name(params, "annulus://one/b");
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::CodeSigning];
    });
    refused(&identity, &credentials, |refusal| matches!(refusal, Refusal::Unusable(_)), Alert::BadCertificate);
}

#[test]
fn a_host_without_a_certificate() {
    let ring = Ring::new("one");
    let (accepted, alert) = accept_from(&ring.identity("a"), LONG, |socket| run(&mut client(None, &TLS13), socket));
    let error = accepted.unwrap_err();
    assert!(matches!(error, SecureError::NoCertificate), "{error}");
    assert_eq!(alert, Some(TlsError::AlertReceived(Alert::CertificateRequired)));
}

#[test]
fn old_tls() {
    let ring = Ring::new("one");
    let (identity, peer) = (ring.identity("a"), ring.issue(|params| name(params, "annulus://one/b")));
    let (connected, _) = connect_to(&identity, LONG, |socket| run(&mut server(&peer, &TLS12), socket));
    let error = connected.unwrap_err();
    assert!(matches!(error, SecureError::OldTls), "{error}");
    let (accepted, alert) = accept_from(&identity, LONG, |socket| run(&mut client(Some(&peer), &TLS12), socket));
    let error = accepted.unwrap_err();
    assert!(matches!(error, SecureError::OldTls), "{error}");
    assert_eq!(alert, Some(TlsError::AlertReceived(Alert::ProtocolVersion)));
}

#[test]
fn tls_for_something_else() {
    let ring = Ring::new("one");
    let (identity, peer) = (ring.identity("a"), ring.issue(|params| name(params, "annulus://one/b")));
    // Another protocol, and none.
    for protocols in [vec!["h2"], Vec::new()] {
        let (accepted, _) =
            accept_from(&identity, LONG, |socket| run(&mut client_for(Some(&peer), &TLS13, &protocols), socket));
        let error = accepted.unwrap_err();
        assert!(matches!(error, SecureError::OtherProtocol), "{error}");
    }
    let (connected, _) = connect_to(&identity, LONG, |socket| {
        let mut server = server(&peer, &TLS13);
        server.writer().write_all(b"goodbye").unwrap();
        run(&mut server, socket)
    });
    let error = connected.unwrap_err();
    assert!(matches!(error, SecureError::OtherProtocol), "{error}");
}

#[test]
fn plain_text() {
    let ring = Ring::new("one");
    let identity = ring.identity("a");
    // No data follows the text, and the connection stays open. The text alone must suffice to
    // detect that it is not TLS.
    let talk = |text: &'static [u8]| {
        move |mut socket: TcpStream| {
            socket.write_all(text).unwrap();
            drop(socket.read_to_end(&mut Vec::new()));
        }
    };
    for text in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n", &[0; 5]] {
        let (accepted, ()) = accept_from(&identity, LONG, talk(text));
        let error = accepted.unwrap_err();
        assert!(matches!(error, SecureError::NotTls), "{error}");
        let (connected, ()) = connect_to(&identity, LONG, talk(text));
        let error = connected.unwrap_err();
        assert!(matches!(error, SecureError::NotTls), "{error}");
    }
}

#[test]
fn garbage() {
    use SecureError::{Closed, NotTls, OldTls, RefusedUs, Tls};
    let ring = Ring::new("one");
    let identity = ring.identity("a");
    for seed in 0..200 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut bytes = vec![0; random.random_range(0..2000)];
        random.fill(&mut bytes[..]);
        // Much of it looks like a record at first.
        if seed % 2 == 0 && bytes.len() > 5 {
            let content = bytes.len() - 5;
            bytes[..5].copy_from_slice(&[random.random_range(20..24), 3, 3, (content >> 8) as u8, content as u8]);
        }
        let talk = |mut socket: TcpStream| {
            socket.write_all(&bytes).unwrap();
            // The other side may already be gone.
            drop(socket.shutdown(Shutdown::Write));
            drop(socket.read_to_end(&mut Vec::new()));
        };
        let (accepted, ()) = accept_from(&identity, LONG, talk);
        let error = accepted.unwrap_err();
        assert!(matches!(error, NotTls | Closed | Tls(_)), "{error:?}");
        let (connected, ()) = connect_to(&identity, LONG, talk);
        let error = connected.unwrap_err();
        assert!(matches!(error, NotTls | Closed | OldTls | RefusedUs(_) | Tls(_)), "{error:?}");
    }
}

#[test]
fn a_peer_that_goes_away() {
    let ring = Ring::new("one");
    let identity = ring.identity("a");
    let (accepted, ()) = accept_from(&identity, LONG, drop);
    assert!(matches!(accepted.unwrap_err(), SecureError::Closed));
    let (connected, ()) = connect_to(&identity, LONG, drop);
    assert!(matches!(connected.unwrap_err(), SecureError::Closed));
}

#[test]
fn a_silent_peer_costs_no_more_than_the_limit() {
    let ring = Ring::new("one");
    let identity = ring.identity("a");
    let (near, far) = sockets();
    let error = accept_within(near, &identity, SHORT).unwrap_err();
    assert!(matches!(error, SecureError::TooSlow { limit: SHORT }), "{error}");
    drop(far);
    let (near, far) = sockets();
    let error = connect_within(near, &identity, &host("b"), SHORT).unwrap_err();
    assert!(matches!(error, SecureError::TooSlow { limit: SHORT }), "{error}");
    drop(far);
    // Nor does one that speaks correct TLS, but never says that it accepts this host.
    let peer = ring.issue(|params| name(params, "annulus://one/b"));
    let (connected, end) =
        connect_to(&identity, Duration::from_secs(2), |socket| run(&mut server(&peer, &TLS13), socket));
    assert!(matches!(connected.unwrap_err(), SecureError::TooSlow { .. }));
    assert_eq!(end, None);
}

#[test]
fn a_trickling_peer_costs_no_more_than_the_limit() {
    let ring = Ring::new("one");
    let identity = ring.identity("a");
    // One byte of a long record at a time: no single read waits for long, but the record would take
    // more than half a minute.
    let trickle = |mut socket: TcpStream| {
        socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let mut bytes = [22, 3, 3, 0x40, 0].into_iter().chain(std::iter::repeat(1));
        while socket.write_all(&[bytes.next().unwrap()]).is_ok() {
            // Waits until the other side leaves, or for the limit above.
            if matches!(socket.read(&mut [0; 4096]), Ok(0)) {
                break;
            }
        }
    };
    let (accepted, ()) = accept_from(&identity, SHORT, trickle);
    assert!(matches!(accepted.unwrap_err(), SecureError::TooSlow { .. }));
    let (connected, ()) = connect_to(&identity, SHORT, trickle);
    assert!(matches!(connected.unwrap_err(), SecureError::TooSlow { .. }));
}

#[test]
fn the_sockets_own_limits_are_back_afterwards() {
    let ring = Ring::new("one");
    let (a, b) = (ring.identity("a"), ring.identity("b"));
    let (near, far) = sockets();
    let limits = [Some(Duration::from_secs(77)), None];
    near.set_read_timeout(limits[0]).unwrap();
    far.set_read_timeout(limits[1]).unwrap();
    far.set_write_timeout(limits[0]).unwrap();
    // A non-blocking socket would look like a silent peer.
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    let (near, far) = std::thread::scope(|scope| {
        let accepting = scope.spawn(|| accept_within(far, &b, Duration::MAX));
        (connect_within(near, &a, &host("b"), LONG).unwrap(), accepting.join().unwrap().unwrap().0)
    });
    assert_eq!([near.stream().read_timeout().unwrap(), near.stream().write_timeout().unwrap()], limits);
    assert_eq!([far.stream().write_timeout().unwrap(), far.stream().read_timeout().unwrap()], limits);
}
