//! What `deploy/` has for several nodes fits the service and itself: routes, roles, ports, users and the time to drain.

use serde::de::Deserialize as _;
use serde_json::Value;

fn read(path: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path);
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The documents of a manifest of Kubernetes.
fn manifest(file: &str) -> Vec<Value> {
    let text = read(&format!("kubernetes/{file}"));
    yaml_serde::Deserializer::from_str(&text).map(|document| Value::deserialize(document).unwrap()).collect()
}

fn of_kind<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    let mut found = documents.iter().filter(|document| document["kind"] == kind);
    let document = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "two of {kind}");
    document
}

/// The value after a word at the start of a line of the Dockerfile.
fn of_image(word: &str) -> String {
    let text = read("Dockerfile");
    text.lines().find_map(|line| line.strip_prefix(&format!("{word} "))).unwrap().to_owned()
}

#[test]
fn deployments_replace_processes_one_by_one_and_leave_them_time_to_drain() {
    for role in ["api", "worker"] {
        let documents = manifest(&format!("{role}.yaml"));
        let deployment = of_kind(&documents, "Deployment");
        let spec = &deployment["spec"];
        assert_eq!(spec["strategy"]["rollingUpdate"]["maxUnavailable"], 0, "{role}");
        assert!(spec["replicas"].as_u64().unwrap() >= 2, "{role}: one that is replaced leaves another");
        let (labels, pod) = (&spec["template"]["metadata"]["labels"], &spec["template"]["spec"]);
        assert_eq!(&spec["selector"]["matchLabels"], labels, "{role}");
        // 5 seconds of preStop, 20 of draining, and some to spare.
        assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() > 25, "{role}");
        // Services would otherwise set variables that look like settings.
        assert_eq!(pod["enableServiceLinks"], false, "{role}");
        let budget = of_kind(&documents, "PodDisruptionBudget");
        assert_eq!(&budget["spec"]["selector"]["matchLabels"], labels, "{role}");
        let container = &pod["containers"][0];
        assert_eq!(container["env"][0]["name"], "AUSPEX_ROLE");
        assert_eq!(container["env"][0]["value"], role);
    }
    let documents = manifest("api.yaml");
    let labels = &of_kind(&documents, "Deployment")["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&of_kind(&documents, "Service")["spec"]["selector"], labels);
}

#[test]
fn probes_are_routes_and_processes_run_as_in_the_image() {
    let document: Value = serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
    let user: Vec<u64> = of_image("USER").split(':').map(|id| id.parse().unwrap()).collect();
    let port: u64 = of_image("EXPOSE").parse().unwrap();
    for role in ["api", "worker"] {
        let documents = manifest(&format!("{role}.yaml"));
        let pod = &of_kind(&documents, "Deployment")["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        for (probe, route) in
            [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]
        {
            assert_eq!(container[probe]["httpGet"]["path"], route, "{role}: {probe}");
            assert!(document["paths"][route]["get"].is_object(), "{route}");
            assert_eq!(container[probe]["httpGet"]["port"], container["ports"][0]["name"], "{role}: {probe}");
        }
        assert_eq!(container["ports"][0]["containerPort"], port, "{role}");
        let security = &pod["securityContext"];
        assert_eq!(
            [&security["runAsUser"], &security["runAsGroup"]].map(Value::as_u64),
            [Some(user[0]), Some(user[1])]
        );
        assert_eq!(security["runAsNonRoot"], true, "{role}");
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], true, "{role}");
        assert_eq!(security["allowPrivilegeEscalation"], false, "{role}");
        assert_eq!(container["volumeMounts"][0]["mountPath"], of_image("VOLUME"), "{role}");
    }
}

#[test]
fn no_manifest_holds_a_secret() {
    for file in ["settings.yaml", "api.yaml", "worker.yaml"] {
        for document in manifest(file) {
            assert_ne!(document["kind"], "Secret", "{file}");
            let settings = document["data"].as_object().into_iter().flatten();
            for (name, _) in settings {
                let is_secret = ["KEY", "URL", "TOKEN", "PASSWORD"].iter().any(|word| name.ends_with(word));
                assert!(!is_secret || name == "AUSPEX_PUBLIC_URL", "{file}: {name}");
            }
        }
    }
}

#[test]
fn the_cluster_of_containers_uses_what_it_declares() {
    let composition: Value = yaml_serde::from_str(&read("compose.cluster.yaml")).unwrap();
    let services = composition["services"].as_object().unwrap();
    let mut roles = Vec::new();
    for (name, service) in services {
        // Anchors are merged by `<<`, which readers of YAML leave to Compose.
        let inherited = &service["<<"];
        let ports = service["ports"].as_array().into_iter().flatten();
        ports.for_each(|port| assert!(port.as_str().unwrap().starts_with("127.0.0.1:"), "{name}: {port}"));
        let needed =
            [service, inherited].into_iter().filter_map(|part| part["depends_on"].as_object()).flatten();
        needed.for_each(|(needed, _)| assert!(services.contains_key(needed), "{name}: {needed}"));
        for config in service["configs"].as_array().into_iter().flatten() {
            let source = config["source"].as_str().unwrap();
            assert!(composition["configs"][source]["content"].is_string(), "{name}: {source}");
        }
        for volume in service["volumes"].as_array().into_iter().flatten() {
            let volume = volume.as_str().unwrap().split(':').next().unwrap();
            assert!(composition["volumes"].as_object().unwrap().contains_key(volume), "{name}: {volume}");
        }
        if let Some(role) = service["environment"]["AUSPEX_ROLE"].as_str() {
            roles.push(role);
            assert!(inherited["build"]["dockerfile"].is_string(), "{name} is built");
            let url = service["environment"]["<<"]["AUSPEX_DATABASE_URL"].as_str().unwrap();
            assert!(url.contains("@pooler:6432/"), "{name}: {url}");
        }
    }
    assert_eq!(roles, ["api", "api", "worker"]);
    let pooler = composition["configs"]["pooler"]["content"].as_str().unwrap();
    assert!(pooler.contains("pool_mode = session") && pooler.contains("listen_port = 6432"));
}
