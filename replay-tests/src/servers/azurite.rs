use std::process::Command;

use anyhow::{Result, ensure};
use object_store::azure::MicrosoftAzureBuilder;
use tempfile::TempDir;

use super::process::Process;
use crate::node::NodeProject;

// The well-known account of every Azurite.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const CONTAINER: &str = "arbe";

/// Azurite in memory, with one empty container.
pub struct Azurite {
    process: Process,
    _directory: TempDir,
}

impl Azurite {
    pub fn start(node: &NodeProject) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut command = node.script("node_modules/azurite/dist/src/blob/main.js");
        command
            .args(["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"])
            .args(["--blobHost", "127.0.0.1", "--blobPort", "0"])
            .current_dir(directory.path());
        let process = Process::spawn(command, &directory.path().join("stderr.log"))?;
        let azurite = Self { process, _directory: directory };
        azurite.create_container(node.script("create-container.mjs"))?;
        Ok(azurite)
    }

    pub fn store_url(&self, prefix: &str) -> String {
        format!("az://{CONTAINER}/{prefix}")
    }

    /// What `MicrosoftAzureBuilder::from_env` reads; lowercased, the keys are also its options.
    pub fn env(&self) -> Vec<(String, String)> {
        [
            ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT),
            ("AZURE_STORAGE_ACCOUNT_KEY", KEY),
            ("AZURE_STORAGE_ENDPOINT", self.endpoint().as_str()),
            ("AZURE_ALLOW_HTTP", "true"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    /// A client of the one container.
    pub fn client(&self) -> MicrosoftAzureBuilder {
        let builder = MicrosoftAzureBuilder::new().with_container_name(CONTAINER);
        self.env().into_iter().fold(builder, |builder, (key, value)| {
            let key = key.to_lowercase().parse().expect("object_store knows these keys");
            builder.with_config(key, value)
        })
    }

    fn endpoint(&self) -> String {
        format!("{}/{ACCOUNT}", self.process.url)
    }

    fn create_container(&self, mut script: Command) -> Result<()> {
        let output = script.args([&self.endpoint(), KEY, CONTAINER]).output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "create the Azurite container: {error}");
        Ok(())
    }
}
