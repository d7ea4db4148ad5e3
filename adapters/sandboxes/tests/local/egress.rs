//! Nothing gets out but through the doors that were handed in.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use commands::ports::{Exit, Machines, Recipe, Relay, Wanted};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::scene::{Scene, wanted};

/// Says back each line, after its own name.
async fn echo(name: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (read, mut write) = stream.split();
                let mut lines = BufReader::new(read).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    write.write_all(format!("{name}: {line}\n").as_bytes()).await.unwrap();
                }
            });
        }
    });
    address
}

fn ask(host: &str, port: impl std::fmt::Display) -> String {
    format!("bash -c 'exec 3<>/dev/tcp/{host}/{port} && echo hello >&3 && read -r -t 5 line <&3 && echo \"$line\"'")
}

#[tokio::test]
async fn a_door_leads_to_its_address_and_no_other() {
    let scene = Scene::open().await;
    let (first, second) = (echo("first").await, echo("second").await);
    let relays = vec![Relay { port: 8080, to: first.clone() }, Relay { port: 8081, to: second }];
    scene.local.create(&Wanted { relays, ..wanted("a") }).await.unwrap();
    assert_eq!(scene.run("a", &ask("127.0.0.1", 8080)).await.stdout, "first: hello\n");
    assert_eq!(scene.run("a", &ask("127.0.0.1", 8081)).await.stdout, "second: hello\n");
    let own = first.rsplit_once(':').unwrap().1;
    assert_ne!(scene.run("a", &ask("127.0.0.1", own)).await.exit, Exit::Code(0), "the host's own loopback");
    assert_eq!(scene.run("a", "rm -f /run/arbe/0.sock; exit 3").await.exit, Exit::Code(3));
    assert_eq!(scene.run("a", &ask("127.0.0.1", 8080)).await.stdout, "first: hello\n");
    assert_eq!(scene.run("a", "exit 9").await.exit, Exit::Code(9), "a relay passes codes on");
    assert_eq!(scene.run("a", "kill -9 $$").await.exit, Exit::Signal(9));
}

#[tokio::test]
async fn without_a_door_there_is_no_way_out() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = format!("arbe-test-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    assert!(std::fs::read_to_string("/proc/net/unix").unwrap().contains(&name));

    for host in ["127.0.0.1", "169.254.169.254", "192.0.2.1", "10.0.0.1"] {
        assert_ne!(scene.run("a", &ask(host, port)).await.exit, Exit::Code(0), "{host}");
    }
    assert_ne!(scene.run("a", "getent hosts example.com").await.exit, Exit::Code(0));
    assert_eq!(scene.run("a", &format!("grep -c {name} /proc/net/unix")).await.stdout, "0\n");
    let ran = scene.run("a", "tail -n +3 /proc/net/dev | cut -d: -f1; tail -n +2 /proc/net/route").await;
    assert_eq!(ran.stdout.trim(), "lo", "no interface and no route but its own loopback");
}

const FAMILIES: &str = r#"
use Socket;
for (40, 38, 31, 17, 30) { print socket(my $s, $_, SOCK_STREAM, 0) ? "open" : $! + 0, " "; }
socket(L, PF_INET, SOCK_STREAM, 0) && bind(L, sockaddr_in(0, INADDR_LOOPBACK)) && listen(L, 1) or die "tcp: $!";
socket(C, PF_INET, SOCK_STREAM, 0) && connect(C, getsockname(L)) or die "tcp: $!";
socket(M, PF_UNIX, SOCK_STREAM, 0) && bind(M, sockaddr_un("/tmp/s")) && listen(M, 1) or die "unix: $!";
socket(D, PF_UNIX, SOCK_STREAM, 0) && connect(D, sockaddr_un("/tmp/s")) or die "unix: $!";
socket(S, PF_INET6, SOCK_DGRAM, 0) && socket(N, 16, SOCK_RAW, 0) or die "others: $!";
open(my $f, "<", "/proc/self/status"); print grep { /^Seccomp:/ } <$f>;
"#;

/// One of them reaches the host of a virtual machine from whatever network.
#[tokio::test]
async fn there_are_no_sockets_but_those_of_the_machine_and_the_internet() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    scene.local.write("a", "families.pl", FAMILIES.into()).await.unwrap();
    let ran = scene.run("a", "perl ~/families.pl").await;
    // `EAFNOSUPPORT`, and that a filter is there, since a kernel without such sockets would say the same.
    assert_eq!(ran.stdout, "97 97 97 97 97 Seccomp:\t2\n", "{}", ran.stderr);
}

#[tokio::test]
async fn a_named_host_is_reached_at_its_own_name_and_port() {
    let scene = Scene::open().await;
    let address = echo("named").await;
    let egress = ["git.example:443", "api.example:443", &address].map(str::to_owned).into();
    scene.local.create(&Wanted { recipe: Recipe { egress, ..Recipe::default() }, ..wanted("a") }).await.unwrap();
    let port = address.rsplit_once(':').unwrap().1;
    assert_eq!(scene.run("a", &ask("127.0.0.1", port)).await.stdout, "named: hello\n");
    let ran = scene.run("a", "getent hosts git.example api.example | tr -s ' '; grep CapEff /proc/self/status").await;
    assert_eq!(ran.stdout, "127.0.1.1 git.example\n127.0.1.2 api.example\nCapEff:\t0000000000000000\n");
    // There is no such host, but there is somebody at the door.
    assert_eq!(scene.run("a", "bash -c 'exec 3<>/dev/tcp/git.example/443'").await.exit, Exit::Code(0));
    assert_ne!(scene.run("a", "bash -c 'exec 3<>/dev/tcp/git.example/80'").await.exit, Exit::Code(0));
}

#[tokio::test]
async fn a_machine_has_no_more_connections_than_allowed() {
    let scene = Scene::with(|options| options.connections = 2).await;
    let to = echo("few").await;
    scene.local.create(&Wanted { relays: vec![Relay { port: 8080, to }], ..wanted("a") }).await.unwrap();
    let three = "bash -c 'for n in 3 4 5; do eval \"exec $n<>/dev/tcp/127.0.0.1/8080\"; echo $n >&$n; read -r -t 5 line <&$n && echo \"$line\"; done'";
    assert_eq!(scene.run("a", three).await.stdout, "few: 3\nfew: 4\n");
    assert_eq!(scene.run("a", &ask("127.0.0.1", 8080)).await.stdout, "few: hello\n");
}

#[tokio::test]
async fn a_door_to_this_hosts_own_networks_opens_only_where_the_server_says_so() {
    let target = echo("inner").await;
    let names = [("server".to_owned(), target.clone())].into();
    let scene = Scene::with(|options| options.ways = sandboxes::local::Ways { names, ..Default::default() }).await;
    let relays = vec![Relay { port: 8080, to: target }, Relay { port: 8081, to: "server".to_owned() }];
    scene.local.create(&Wanted { relays, ..wanted("a") }).await.unwrap();
    assert_ne!(scene.run("a", &ask("127.0.0.1", 8080)).await.exit, Exit::Code(0));
    assert_eq!(scene.run("a", &ask("127.0.0.1", 8081)).await.stdout, "inner: hello\n");
}
