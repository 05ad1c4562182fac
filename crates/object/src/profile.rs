//! Settings from the environment and from the files of the AWS tools.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

use configparser::ini::Ini;

use crate::error::OpenError;
use crate::options::StoreOptions;

/// What a profile may have of these, and the variables of the same meaning.
const CREDENTIALS: [(&str, &str); 3] = [
    ("aws_access_key_id", "AWS_ACCESS_KEY_ID"),
    ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"),
    ("aws_session_token", "AWS_SESSION_TOKEN"),
];
const OTHERS: [(&str, &str); 2] = [("region", "AWS_REGION"), ("endpoint_url", "AWS_ENDPOINT_URL")];

/// The longest file that is read, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// The profile that is used where none is named.
const USUAL: &str = "default";

impl StoreOptions {
    /// The settings that the AWS tools would use: those of the environment, then those of the profile in
    /// `~/.aws/credentials` and `~/.aws/config`. A profile that is named here has its credentials before the
    /// environment's; `AWS_PROFILE` names one behind them. A profile may
    /// name a program in place of keys.
    ///
    /// # Errors
    /// There is no such profile, or it has no keys of its own, or a file cannot be read.
    pub fn from_environment(
        variables: impl IntoIterator<Item = (String, String)>,
        profile: Option<&str>,
    ) -> Result<StoreOptions, OpenError> {
        let mut variables: Vec<(String, String)> =
            variables.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let of = |name: &str| {
            let found = variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        let has_keys = of("AWS_ACCESS_KEY_ID").is_some();
        let named = profile.map(str::to_string).or_else(|| of("AWS_PROFILE").filter(|_| !has_keys));
        let name = named.as_deref().unwrap_or(USUAL);
        let home = of("HOME").map(PathBuf::from);
        let file = |variable: &str, usual: &str| {
            of(variable).map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(".aws").join(usual)))
        };
        let (credentials, _) = read(file("AWS_SHARED_CREDENTIALS_FILE", "credentials"))?;
        let (config, text) = read(file("AWS_CONFIG_FILE", "config"))?;
        let long = format!("profile {name}");
        let section =
            if name == USUAL && config.sections().iter().all(|known| *known != long) { name } else { &long };
        let is_there = |ini: &Ini, section: &str| ini.sections().iter().any(|known| known == section);
        if named.is_some() && !is_there(&credentials, name) && !is_there(&config, section) {
            return Err(OpenError::NoProfile(name.to_string()));
        }
        let value = |key: &str| credentials.get(name, key).or_else(|| config.get(section, key));
        let has_own = value("aws_access_key_id").is_some() && value("aws_secret_access_key").is_some();
        // Keys of the environment hold before it, unless a profile is named here.
        let takes_other = !has_own && (profile.is_some() || !has_keys);
        let credential_process = value("credential_process").filter(|_| takes_other);
        if named.is_some() && !has_own && credential_process.is_none() {
            return Err(OpenError::NoKeys(name.to_string()));
        }
        let found = |rows: &[(&str, &str)]| -> Vec<(String, String)> {
            rows.iter().filter_map(|(key, variable)| Some((variable.to_string(), value(key)?))).collect()
        };
        // Of several values the last one holds.
        let mut settings = found(&OTHERS);
        let endpoint = |url: String| ("AWS_ENDPOINT_URL".to_string(), url);
        let of_service = value("services").and_then(|services| endpoint_of_s3(&text, &services));
        settings.extend(of_service.map(endpoint));
        let of_variable = of("AWS_ENDPOINT_URL_S3");
        let takes_keys = has_own && (profile.is_some() || !has_keys);
        let keys = if takes_keys { found(&CREDENTIALS) } else { Vec::new() };
        variables.retain(|(name, _)| {
            name.starts_with("AWS_") && !(takes_keys && CREDENTIALS.iter().any(|(_, known)| known == name))
        });
        settings.extend(variables);
        settings.extend(of_variable.map(endpoint));
        settings.extend(keys);
        Ok(StoreOptions { settings, credential_process, ..StoreOptions::default() })
    }
}

/// A file of profiles; one that is not there has none.
fn read(path: Option<PathBuf>) -> Result<(Ini, String), OpenError> {
    let mut ini = Ini::new_cs();
    ini.set_comment_symbols(&['#', ';']);
    // What follows a value on its line belongs to it, as in the tools of AWS.
    ini.set_inline_comment_symbols(Some(&[]));
    let mut text = String::new();
    let Some(path) = path else { return Ok((ini, text)) };
    match File::open(&path).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((ini, text)),
        Err(source) => return Err(OpenError::Profiles { path, source }),
    }
    // Its own words may repeat a line with a secret.
    ini.read(text.clone()).map_err(|_| OpenError::NoProfiles(path))?;
    Ok((ini, text))
}

/// The endpoint of S3 in a section of services, which has the settings of each service in indented lines below its name.
fn endpoint_of_s3(text: &str, services: &str) -> Option<String> {
    let section = text.lines().skip_while(|line| line.trim() != format!("[services {services}]")).skip(1);
    let section = section.take_while(|line| !line.starts_with('['));
    let of_s3 =
        section.skip_while(|line| line.split_once('=').is_none_or(|(name, _)| name.trim_end() != "s3"));
    let settings = of_s3.skip(1).take_while(|line| line.is_empty() || line.starts_with([' ', '\t']));
    let mut settings = settings.filter_map(|line| line.split_once('='));
    settings.find(|(name, _)| name.trim() == "endpoint_url").map(|(_, url)| url.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)], profile: Option<&str>) -> Result<StoreOptions, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".aws")).unwrap();
        let credentials = "[default]\naws_access_key_id = D\naws_secret_access_key = d/+=:d\n\n\
            [work]\naws_access_key_id=W\naws_secret_access_key=w\naws_session_token=t\n";
        std::fs::write(folder.path().join(".aws/credentials"), credentials).unwrap();
        let config = "# of the tools\n[default]\nregion = eu-central-1\n[profile work]\nregion = us-west-2\n\
            endpoint_url = https://store\ns3 =\n  max_concurrent_requests = 20\n[profile vault]\ncredential_process = vault \"a b\"; x # y\n[profile sso]\nsso_session = x\n\
            [profile own]\naws_access_key_id=O\naws_secret_access_key=o\nservices = mine\nendpoint_url = https://all\n\
            [services mine]\nsts =\n  endpoint_url = https://sts\ns3 =\n  x = y\n  endpoint_url = https://mine\n";
        std::fs::write(folder.path().join(".aws/config"), config).unwrap();
        let home = [("HOME", folder.path().to_str().unwrap())];
        let variables =
            home.iter().chain(variables).map(|(name, value)| (name.to_string(), value.to_string()));
        StoreOptions::from_environment(variables, profile).map_err(|error| error.to_string())
    }

    fn settings(variables: &[(&str, &str)], profile: Option<&str>) -> Result<Vec<(String, String)>, String> {
        let found = found(variables, profile)?;
        let mut last = std::collections::BTreeMap::new();
        last.extend(found.settings);
        Ok(last.into_iter().filter(|(name, _)| name != "AWS_PROFILE").collect())
    }

    #[track_caller]
    fn assert_settings(found: Result<Vec<(String, String)>, String>, expected: &[(&str, &str)]) {
        let expected: Vec<_> =
            expected.iter().map(|(name, value)| (format!("AWS_{name}"), value.to_string())).collect();
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn settings_are_those_that_the_aws_tools_use() {
        let usual = [("ACCESS_KEY_ID", "D"), ("REGION", "eu-central-1"), ("SECRET_ACCESS_KEY", "d/+=:d")];
        assert_settings(settings(&[], None), &usual);
        let work = [
            ("ACCESS_KEY_ID", "W"),
            ("ENDPOINT_URL", "https://store"),
            ("REGION", "us-west-2"),
            ("SECRET_ACCESS_KEY", "w"),
            ("SESSION_TOKEN", "t"),
        ];
        assert_settings(settings(&[("AWS_PROFILE", "work")], None), &work);
        let keys = [("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "e"), ("AWS_SESSION_TOKEN", "s")];
        assert_settings(settings(&keys, Some("work")), &work);
        let own = [
            ("ACCESS_KEY_ID", "E"),
            ("REGION", "eu-central-1"),
            ("SECRET_ACCESS_KEY", "e"),
            ("SESSION_TOKEN", "s"),
        ];
        assert_settings(settings(&keys, None), &own);
        let of_s3 = |variables: &[(&str, &str)]| {
            let found = settings(variables, Some("own")).unwrap();
            found.into_iter().find(|(name, _)| name == "AWS_ENDPOINT_URL").unwrap().1
        };
        assert_eq!(of_s3(&[]), "https://mine");
        let all = ("AWS_ENDPOINT_URL", "https://variable");
        assert_eq!(of_s3(&[all]), "https://variable");
        assert_eq!(of_s3(&[("AWS_ENDPOINT_URL_S3", "https://variable-s3"), all]), "https://variable-s3");
        let region = [("ACCESS_KEY_ID", "D"), ("REGION", "here"), ("SECRET_ACCESS_KEY", "d/+=:d")];
        assert_settings(settings(&[("AWS_REGION", "here")], None), &region);
    }

    #[test]
    fn a_profile_may_name_a_program_for_its_keys() {
        let of = |keys: &[(&str, &str)], profile| found(keys, profile).unwrap().credential_process;
        assert_eq!(of(&[], Some("vault")).as_deref(), Some("vault \"a b\"; x # y"));
        assert_eq!(of(&[("AWS_PROFILE", "vault")], None).as_deref(), Some("vault \"a b\"; x # y"));
        let keys = [("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "e")];
        assert_eq!(of(&keys, None), None);
        assert_eq!(of(&keys, Some("vault")).as_deref(), Some("vault \"a b\"; x # y"));
        assert_eq!(of(&[], Some("work")), None);
    }

    #[test]
    fn profiles_that_do_not_do_are_said_to_be_so() {
        assert!(settings(&[], Some("nobody")).unwrap_err().contains("no profile nobody"));
        assert!(settings(&[], Some("sso")).unwrap_err().contains("export-credentials --profile sso"));
    }
}
