//! Addresses that may not be reached are not, however they are written.

use outlast_workflow::FaultKind;

use super::*;

/// Spellings of this machine's loopback address, and a name that leads there.
fn spellings(port: u16) -> Vec<String> {
    [
        "127.0.0.1",
        "127.1",
        "0x7f000001",
        "0X7F.1",
        "2130706433",
        "0177.0.0.1",
        "127.0.0.1.",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::1]",
        "localhost",
        "LOCALHOST",
        "innocent.test",
        "%31%32%37.0.0.1",
        "user@127.0.0.1",
    ]
    .iter()
    .map(|host| format!("http://{host}:{port}/"))
    .collect()
}

#[tokio::test]
async fn loopback_is_denied_in_every_spelling_when_it_is_not_allowed() {
    let server = Server::start(|_, _| text("inside")).await;
    let caller = caller(|options| {
        options.addresses = closed();
        options.hosts = hosts(&[("innocent.test", "127.0.0.1")]);
    });
    for uri in spellings(server.address.port()) {
        let fault = failed(caller.call(get(&uri), &NoSecrets).await);
        assert!(fault.is(FaultKind::Authorization), "{uri}: {fault:?}");
        let detail = fault.detail.unwrap();
        assert!(detail.contains("calls to it need `--allow "), "{uri}: {detail}");
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn loopback_is_reached_when_it_is_allowed() {
    let server = Server::start(|_, _| text("inside")).await;
    let caller = caller(|options| options.hosts = hosts(&[("innocent.test", "127.0.0.1")]));
    for host in ["127.0.0.1", "0x7f000001", "innocent.test"] {
        let uri = format!("http://{host}:{}/", server.address.port());
        assert_eq!(succeeded(caller.call(get(&uri), &NoSecrets).await), r#""inside""#, "{host}");
    }
}

#[tokio::test]
async fn the_network_around_is_denied_by_default() {
    let caller = caller(|options| {
        options.hosts = hosts(&[("inner.test", "10.0.0.1"), ("wire.test", "fe80::1")]);
    });
    for (host, option) in [
        ("inner.test", "`--allow-private` or `--allow 10.0.0.1`"),
        ("192.168.0.1", "`--allow-private`"),
        ("[fd00::1]", "`--allow-private`"),
        ("wire.test", "need `--allow fe80::1`"),
        ("169.254.169.254", "need `--allow 169.254.169.254`"),
        ("0.0.0.0", "need `--allow 0.0.0.0`"),
        ("[::]", "need `--allow "),
    ] {
        let fault = failed(caller.call(get(&format!("http://{host}/")), &NoSecrets).await);
        assert!(fault.is(FaultKind::Authorization), "{host}: {fault:?}");
        let detail = fault.detail.unwrap();
        assert!(detail.contains(option), "{host}: {detail}");
    }
}

#[tokio::test]
async fn a_redirect_to_a_denied_address_is_denied() {
    for target in [
        "http://127.0.0.2:{port}/",
        "http://[::ffff:127.0.0.2]:{port}/",
        "http://0x7f000002:{port}/",
        "http://turncoat.test:{port}/",
        "//127.0.0.2:{port}/",
        "http://169.254.169.254/latest/meta-data",
    ] {
        let server = Server::start(move |_, request| {
            let port = request.split_once("host: 127.0.0.1:").unwrap().1;
            let port = port.split_once('\r').unwrap().0;
            let location = target.replace("{port}", port);
            answer(302, &format!("location: {location}\r\n"), "")
        })
        .await;
        let caller = caller(|options| {
            options.addresses = closed();
            options.addresses.allow = vec!["127.0.0.1/32".parse().unwrap()];
            options.hosts = hosts(&[("turncoat.test", "127.0.0.2")]);
        });
        let fault = failed(caller.call(follow("GET", &server.uri("/")), &NoSecrets).await);
        assert!(fault.is(FaultKind::Authorization), "{target}: {fault:?}");
        assert_eq!(server.requests().len(), 1, "{target}");
    }
}

#[tokio::test]
async fn a_denied_host_is_not_even_looked_up() {
    let caller = caller(|options| options.addresses.deny = vec!["*.bad.test".parse().unwrap()]);
    let fault = failed(caller.call(get("http://very.bad.test/"), &NoSecrets).await);
    assert!(fault.is(FaultKind::Authorization), "{fault:?}");
    assert!(fault.detail.unwrap().contains("`--deny`"));
}

#[tokio::test]
async fn a_mapped_origin_is_held_to_the_policy_too() {
    let server = Server::start(|_, _| text("inside")).await;
    let caller = caller(|options| {
        options.addresses = closed();
        let to = format!("http://{}", server.address);
        options.origins.insert("https://petstore.swagger.io", &to).unwrap();
    });
    failed(caller.call(get("https://petstore.swagger.io/"), &NoSecrets).await);
    assert_eq!(server.requests().len(), 0);
}
