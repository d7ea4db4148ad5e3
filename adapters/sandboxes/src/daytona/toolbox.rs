//! The toolbox in a sandbox: files, short scripts, and sessions whose output is followed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use commands::ports::{MachineError, OutputSink, Verdict};
use events::dispatch::OutputStream;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use tokio::time::sleep;

use super::logs::Demultiplexer;
use super::shapes::{
    Command, CreateSession, Directory, ExecuteRequest, ExecuteResponse, Logs, Sandbox, Session, SessionExecute, SessionExecuted,
};
use super::state::verdict;
use super::{Inner, Place};
use crate::remote::http::{Came, Effect, Failure, join, with};
use crate::remote::script::{self, Layout};
use crate::remote::{Ran, Reach, unique};

/// Beyond what the toolbox waits for a command itself.
const MARGIN: Duration = Duration::from_secs(10);
const PATIENCE_WITH_FILES: Duration = Duration::from_secs(600);
/// A command that ended has its code a moment later.
const LOOKS_FOR_CODE: u32 = 50;

impl Inner {
    /// Where the toolbox of a sandbox answers. Asked once for each.
    async fn place(&self, machine: &str) -> Result<Place, MachineError> {
        if let Some(place) = self.places.lock().get(machine) {
            return Ok(place.clone());
        }
        let toolbox = toolbox_url(&self.look(machine).await?)?;
        let request = self.request(Method::GET, join(&toolbox, &["user-home-dir"]));
        let home: Directory = self.settled(machine, self.http.json(request, Effect::Asks).await).await?;
        let place = Place { toolbox, layout: Layout::new(&home.dir) };
        self.places.lock().insert(machine.to_owned(), place.clone());
        Ok(place)
    }

    async fn toolbox(&self, machine: &str, method: Method, parts: &[&str]) -> Result<RequestBuilder, MachineError> {
        let place = self.place(machine).await?;
        Ok(self.request(method, join(&place.toolbox, parts)))
    }

    /// A sandbox that stands still has no toolbox, whatever is said in its place. Only its state tells whether it is gone.
    async fn settled<T>(&self, machine: &str, answer: Result<T, Failure>) -> Result<T, MachineError> {
        let failure = match answer {
            Ok(value) => return Ok(value),
            Err(failure) => failure,
        };
        self.places.lock().remove(machine);
        match self.sought(machine).await {
            Ok(sandbox) => match verdict(&sandbox) {
                Verdict::Live => Err(failure.error),
                Verdict::Dead { why } => Err(MachineError::Gone(why)),
                Verdict::Resumable | Verdict::Unknown { .. } => {
                    let state = sandbox.state.unwrap_or_default();
                    Err(MachineError::Unavailable(format!("it is {state}")))
                }
            },
            Err(Failure { error: MachineError::Gone(why), .. }) => Err(MachineError::Gone(why)),
            Err(_) => Err(failure.error),
        }
    }

    async fn ask(&self, machine: &str, request: RequestBuilder, effect: Effect) -> Result<Response, MachineError> {
        let answer = self.http.send(request, effect).await;
        self.settled(machine, answer).await
    }

    /// True if it was made now.
    pub(super) async fn open_session(&self, machine: &str, session: &str) -> Result<bool, MachineError> {
        let request = self.toolbox(machine, Method::POST, &["process", "session"]).await?;
        match self.http.send(request.json(&CreateSession { session_id: session }), Effect::Changes).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.is(StatusCode::CONFLICT) => Ok(false),
            Err(failure) => self.settled(machine, Err(failure)).await,
        }
    }

    pub(super) async fn close_session(&self, machine: &str, session: &str) -> Result<(), MachineError> {
        let request = self.toolbox(machine, Method::DELETE, &["process", "session", session]).await?;
        match self.http.send(request, Effect::Changes).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.is(StatusCode::NOT_FOUND) => Ok(()),
            Err(failure) => self.settled(machine, Err(failure)).await,
        }
    }

    /// None if the toolbox knows no such session, as after a stop.
    pub(super) async fn session(&self, machine: &str, session: &str) -> Result<Option<Session>, MachineError> {
        let request = self.toolbox(machine, Method::GET, &["process", "session", session]).await?;
        match self.http.json(request, Effect::Asks).await {
            Ok(session) => Ok(Some(session)),
            Err(failure) if failure.is(StatusCode::NOT_FOUND) && self.is_live(machine).await => Ok(None),
            Err(failure) => self.settled(machine, Err(failure)).await,
        }
    }

    async fn is_live(&self, machine: &str) -> bool {
        self.look(machine).await.is_ok_and(|sandbox| verdict(&sandbox) == Verdict::Live)
    }

    /// Words are for a shell that stays: it must not be replaced, and it must not end.
    pub(super) async fn begin(&self, machine: &str, session: &str, words: &[String]) -> Result<String, MachineError> {
        let command: Vec<String> = words.iter().map(|word| script::quote(word)).collect();
        let request = self.toolbox(machine, Method::POST, &["process", "session", session, "exec"]).await?;
        let request = request.json(&SessionExecute { command: &command.join(" "), run_async: true });
        let begun: SessionExecuted = self.settled(machine, self.http.json(request, Effect::Changes).await).await?;
        Ok(begun.cmd_id)
    }

    /// Everything that is printed until the command ends or the socket breaks.
    async fn follow_logs(
        &self,
        machine: &str,
        session: &str,
        command: &str,
        sorted: &mut Demultiplexer,
        output: OutputSink<'_>,
    ) -> Result<(), MachineError> {
        let place = self.place(machine).await?;
        let url = join(&place.toolbox, &["process", "session", session, "command", command, "logs"]);
        let url = with(url, &[("follow", "true")]);
        let mut socket = self.http.socket(url).await?;
        loop {
            match socket.next().await? {
                Came::Binary(bytes) => sorted.push(&bytes, output),
                Came::Text(text) => sorted.push(text.as_bytes(), output),
                Came::End => return Ok(()),
            }
        }
    }

    async fn exit_code(&self, machine: &str, session: &str, command: &str) -> Result<Option<i32>, MachineError> {
        let parts = ["process", "session", session, "command", command];
        let request = self.toolbox(machine, Method::GET, &parts).await?;
        let command: Command = self.settled(machine, self.http.json(request, Effect::Asks).await).await?;
        Ok(command.exit_code)
    }

    /// What a broken socket left out.
    async fn rest_of_logs(
        &self,
        machine: &str,
        session: &str,
        command: &str,
        sorted: &Demultiplexer,
        output: OutputSink<'_>,
    ) -> Result<(), MachineError> {
        let parts = ["process", "session", session, "command", command, "logs"];
        let request = self.toolbox(machine, Method::GET, &parts).await?;
        let logs: Logs = self.settled(machine, self.http.json(request, Effect::Asks).await).await?;
        let missing = |text: &str, given: usize| text.as_bytes().get(given..).unwrap_or_default().to_vec();
        for (stream, text, given) in
            [(OutputStream::Stdout, logs.stdout, sorted.stdout), (OutputStream::Stderr, logs.stderr, sorted.stderr)]
        {
            let missing = missing(&text, given);
            if !missing.is_empty() {
                output(stream, &missing);
            }
        }
        Ok(())
    }

    async fn to_the_end(&self, machine: &str, session: &str, file: &str, output: OutputSink<'_>) -> Result<i32, MachineError> {
        let command = self.begin(machine, session, &["sh".to_owned(), file.to_owned()]).await?;
        let mut sorted = Demultiplexer::default();
        let followed = self.follow_logs(machine, session, &command, &mut sorted, output).await;
        sorted.finish(output);
        let mut looks = 0;
        loop {
            if let Some(code) = self.exit_code(machine, session, &command).await? {
                if followed.is_err() {
                    self.rest_of_logs(machine, session, &command, &sorted, output).await?;
                }
                return Ok(code);
            }
            // A broken socket says nothing of the command, which goes on.
            if followed.is_ok() && looks >= LOOKS_FOR_CODE {
                return Err(MachineError::Unknown("it ended without a code".to_owned()));
            }
            looks += 1;
            sleep(self.options.poll.min(Duration::from_millis(100) * looks)).await;
        }
    }
}

#[async_trait]
impl Reach for Arc<Inner> {
    async fn layout(&self, machine: &str) -> Result<Layout, MachineError> {
        Ok(self.place(machine).await?.layout)
    }

    async fn run(&self, machine: &str, script: &str, patience: Duration) -> Result<Ran, MachineError> {
        let request = self.toolbox(machine, Method::POST, &["process", "execute"]).await?.timeout(patience + MARGIN);
        let command = format!("sh -c {}", script::quote(script));
        let request = request.json(&ExecuteRequest { command: &command, timeout: patience.as_secs() });
        let ran: ExecuteResponse = self.settled(machine, self.http.json(request, Effect::Changes).await).await?;
        let code = ran.exit_code.ok_or_else(|| MachineError::Unknown("it ended without a code".to_owned()))?;
        Ok(Ran { code, printed: ran.result })
    }

    async fn put(&self, machine: &str, path: &str, mode: &str, contents: Bytes) -> Result<(), MachineError> {
        let boundary = format!("arbe-{}{}", unique(), unique());
        let request = self.toolbox(machine, Method::POST, &["files", "bulk-upload"]).await?.timeout(PATIENCE_WITH_FILES);
        let request = request.header(CONTENT_TYPE, format!("multipart/form-data; boundary={boundary}"));
        self.ask(machine, request.body(form(&boundary, path, &contents)), Effect::Changes).await?;
        let place = self.place(machine).await?;
        let url = with(join(&place.toolbox, &["files", "permissions"]), &[("path", path), ("mode", mode)]);
        self.ask(machine, self.request(Method::POST, url), Effect::Changes).await.map(drop)
    }

    async fn get(&self, machine: &str, path: &str, largest: usize) -> Result<Bytes, MachineError> {
        let place = self.place(machine).await?;
        let url = with(join(&place.toolbox, &["files", "download"]), &[("path", path)]);
        let request = self.request(Method::GET, url).timeout(PATIENCE_WITH_FILES);
        let response = self.ask(machine, request, Effect::Asks).await?;
        Ok(self.http.body(response, largest, Effect::Asks).await?)
    }

    async fn follow(&self, machine: &str, id: &str, file: &str, output: OutputSink<'_>) -> Result<i32, MachineError> {
        let session = format!("arbe-{id}");
        // A setup has the same id every time.
        if !self.open_session(machine, &session).await? {
            self.close_session(machine, &session).await?;
            self.open_session(machine, &session).await?;
        }
        self.to_the_end(machine, &session, file, output).await
    }

    async fn tidy(&self, machine: &str, id: &str) -> Result<(), MachineError> {
        self.close_session(machine, &format!("arbe-{id}")).await
    }
}

fn toolbox_url(sandbox: &Sandbox) -> Result<Url, MachineError> {
    let wrong = || MachineError::Unavailable("the sandbox has no address".to_owned());
    let base: Url = sandbox.toolbox_proxy_url.parse().map_err(|_| wrong())?;
    if base.cannot_be_a_base() { Err(wrong()) } else { Ok(join(&base, &[&sandbox.id])) }
}

fn form(boundary: &str, path: &str, contents: &[u8]) -> Vec<u8> {
    let disposition = "Content-Disposition: form-data; name=";
    let mut body = format!("--{boundary}\r\n{disposition}\"files[0].path\"\r\n\r\n{path}\r\n").into_bytes();
    let file = format!("--{boundary}\r\n{disposition}\"files[0].file\"; filename=\"file\"\r\n");
    body.extend_from_slice(file.as_bytes());
    body.extend_from_slice(b"Content-Type: application/octet-stream\r\n\r\n");
    body.extend_from_slice(contents);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    body
}
