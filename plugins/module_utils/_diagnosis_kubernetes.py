# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: the Kubernetes API, pods, names in a cluster, and MPIJobs."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis_entry import CAUSE, ECHO, EFFECT, entry, sign

_DNS_POLICY = "Create the launcher with dnsPolicy ClusterFirst (with hostNetwork: ClusterFirstWithHostNet)."
_MEND_JOB = "Mend what its log tells; see kubectl describe mpijob."
_BY_PODS = "worker_pods, mpijob"
_BY_DNS = "mpi_hostfile, with worker_pods"
#: What the variables of the role begin with.
_ROLE = "[{prefix}|worker_pods_]"
#: What the API server refuses for other reasons than a user's rights.
_RULES = r"exceeded quota|violates PodSecurity|denied the request|(?:maximum|minimum) \S+ usage|error looking up service account"

ENTRIES = (
    entry(
        "kube-unreachable",
        "The API server of the cluster does not answer[: {reason}].",
        "See whether it runs and can be reached from here: kubectl cluster-info; the address in the kubeconfig, proxy settings, VPN and"
        " firewall are often in the way.",
        sign("Unable to connect to the server", r"Unable to connect to the server: (?P<reason>(?!.*x509).+)"),
        sign("The connection to the server", r"The connection to the server (?P<reason>.+? was refused)"),
        sign(
            "Max retries exceeded with url",
            r"(?P<reason>HTTPS?ConnectionPool\([^)]*\): Max retries exceeded)(?!.*CERTIFICATE_VERIFY_FAILED)",
        ),
        # It is being restarted, or its etcd is.
        sign(
            "currently unable to handle the request",
            r"(?P<reason>the server is currently unable to handle the request)",
        ),
        sign(
            "unable to return a response in the time allotted",
            r"(?P<reason>[^:]* unable to return a response in the time allotted)",
        ),
        sign("etcdserver: ", r"(?P<reason>etcdserver: (?:leader changed|request timed out|no leader)[^\"]*)"),
    ),
    entry(
        "kube-token-expired",
        "The cluster does not know who is asking: the token or certificate has expired, or is of another cluster.",
        "Log in again, or take a fresh kubeconfig (gpufabric_kubeconfig); a job that runs for long needs a token that lasts.",
        sign("You must be logged in to the server"),
        sign("the server has asked for the client to provide credentials"),
        sign("Unauthorized", r"Reason: Unauthorized|\"reason\": ?\"Unauthorized\"|token (?:has )?expired"),
    ),
    entry(
        "kube-forbidden",
        "The account of the kubeconfig may not [{rights}|do that][ in namespace {namespace}].",
        "Have a Role with these rights bound to it: kubectl auth can-i --list[; or adopt pods that exist: {adopting}][; or let somebody"
        " who has them apply what {rendering} writes].",
        sign("Error from server (Forbidden)", rf"Error from server \(Forbidden\): (?!.*(?: cannot |{_RULES}))"),
        sign(
            "cannot",
            r"User \"[^\"]+\" cannot (?P<rights>\w+ resource \"[^\"]+\")(?: in API group \"[^\"]*\")?"
            r"(?: in the namespace \"(?P<namespace>[^\"]+)\")?",
        ),
        found_by=_BY_PODS,
    ),
    entry(
        "kube-certificate",
        "The certificate of the API server is not trusted[: {reason}].",
        "Take the kubeconfig of this cluster; where a certificate has expired, or a clock is off, mend that.",
        sign("certificate", r"x509: (?P<reason>certificate .+)"),
        sign(
            "CERTIFICATE_VERIFY_FAILED", r"CERTIFICATE_VERIFY_FAILED\] (?P<reason>certificate verify failed: [^(]+?) \("
        ),
    ),
    entry(
        "kube-config",
        "The configuration for the cluster cannot be used[: {reason}].",
        "Set gpufabric_kubeconfig and, where it has several contexts, gpufabric_kube_context; else KUBECONFIG or ~/.kube/config count.",
        sign("Invalid kube-config file", r"(?P<reason>Invalid kube-config file\. .+?)\.?$"),
        sign("Could not find or access", r"(?P<reason>Could not find or access '.+?')", kinds=("kubernetes", "any")),
    ),
    entry(
        "kube-namespace",
        "There is no namespace [{namespace}|of that name] in the cluster.",
        "Correct gpufabric_namespace, or have it created: kubectl create namespace.",
        sign("namespaces", r"namespaces \"(?P<namespace>[^\"]+)\" not found"),
        found_by=_BY_PODS,
    ),
    entry(
        "kubectl-missing",
        "There is no kubectl on the controller, and pods are reached by it.",
        "Install kubectl, and have its directory in PATH.",
        sign("kubectl command not found"),
    ),
    entry(
        "kube-exec-failed",
        "The cluster cannot start a program in the pod[: {reason}].",
        "See whether the node of the pod is Ready and the API server reaches its kubelet (port 10250); in an image without a shell or"
        " Python, nothing can be started.",
        sign("unable to upgrade connection", r"unable to upgrade connection: (?P<reason>.+)"),
        sign("error dialing backend", r"(?P<reason>error dialing backend: .+)"),
        sign("OCI runtime exec failed", r"OCI runtime exec failed: (?P<reason>(?!.*executable file not found).+)"),
        found_by="worker_pods",
    ),
    entry(
        "interpreter-missing",
        "[{program}|The Python interpreter] is not on the host, or in the pod's container.",
        "Install Python 3, or set ansible_python_interpreter (worker_pods_python_interpreter, mpijob_python_interpreter) to where it is.",
        sign("The module interpreter", r"The module interpreter '(?P<program>.+?)' was not found"),
        found_by="worker_pods",
    ),
    entry(
        "pod-missing",
        "There is no such pod[: none has the labels {labels}].",
        "See whether it was deleted or never created: kubectl get pods --show-labels, kubectl get events; correct"
        " [{setting}|worker_pods_names or worker_pods_selector].",
        sign("Error from server (NotFound)", r"\(NotFound\): pods \"(?P<host>[^\"]+)\" not found"),
        found_by="worker_pods",
    ),
    entry(
        "pod-evicted",
        "The pod was evicted[: {reason}].",
        f"Give it requests and limits that fit ({_ROLE}resources), or a node with more room; see kubectl describe node.",
        sign("The node was low on resource", r"(?P<reason>The node was low on resource: [\w-]+)"),
        sign(
            "ephemeral local storage usage exceeds", r"(?P<reason>\S+ ephemeral local storage usage exceeds .+?)\.?\s*$"
        ),
        sign("TaintManagerEviction"),
        primacy=CAUSE - 15,
        statuses=(137, 143),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-lost",
        "The pod was deleted during the run[, and another one (uid {uid}) has its name now].",
        "Find out who or what did so (kubectl get events), such as a drain of its node, and run again.",
        primacy=CAUSE - 15,
        found_by="worker_pods",
    ),
    entry(
        "pod-restarted",
        "The pod's container ended during the run and is started anew[: {reason}].",
        "See why it ended: kubectl logs --previous; run again.",
        primacy=CAUSE - 15,
        found_by="worker_pods",
    ),
    entry(
        "pod-quota",
        "The quota of the namespace does not let all pods be created[: {reason}].",
        "Ask for fewer pods or less for each, or have the quota raised: kubectl describe quota.",
        sign("exceeded quota", r"(?P<reason>exceeded quota: .+?)[\"}]*$"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-refused",
        "A rule of the cluster does not let such pods be created[: {reason}].",
        f"Change what the rule names ({_ROLE}run_as_user, {_ROLE}capabilities, {_ROLE}host_network, {_ROLE}resources,"
        f" {_ROLE}pod_spec), or have the rule changed: kubectl get events.",
        sign("violates PodSecurity", r"(?P<reason>violates PodSecurity .+?)$"),
        sign("admission webhook", r"(?P<reason>admission webhook .+ denied the request.*?)$"),
        sign("is forbidden", r"is forbidden: \[?(?P<reason>(?:maximum|minimum) \S+ usage per .+?)$"),
        sign("error looking up service account", r"(?P<reason>error looking up service account .+?)$"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-not-created",
        "Kubernetes has not created all pods[: {reason}].",
        "See kubectl describe of what makes them, kubectl get events, and whether the cluster's controller manager works.",
        found_by=_BY_PODS,
    ),
    entry(
        "pod-unschedulable",
        "No node takes the pod[: {reason}].",
        "Free or add what is short, or correct what keeps nodes out: [{settings}|worker_pods_resources, worker_pods_node_selector,"
        " worker_pods_affinity, worker_pods_tolerations]; see kubectl describe nodes.",
        sign("nodes are available", r"(?P<reason>\d+/\d+ nodes are available: .+?)\.?\s*$"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-image",
        "The image cannot be pulled[: {reason}].",
        f"Correct {_ROLE}image, or set {_ROLE}image_pull_secrets; see whether the node reaches the registry.",
        sign("ImagePullBackOff"),
        sign("ErrImagePull"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-image-absent",
        "The image is not on the node, and is not to be pulled.",
        f"Load it on the node, or set {_ROLE}image_pull_policy to IfNotPresent.",
        sign("ErrImageNeverPull"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-image-name",
        "The name of the image is none.",
        f"Correct {_ROLE}image.",
        sign("InvalidImageName"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-config",
        "The container names something that is not there, or breaks a rule[: {reason}].",
        f"Correct what is named: a Secret, a ConfigMap, a user ({_ROLE}run_as_user).",
        sign("CreateContainerConfigError"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-volume",
        "A volume of the pod cannot be mounted[: {reason}].",
        "Create what it names, or correct the pod's volumes; see kubectl describe pod.",
        sign("MountVolume", r"(?P<reason>MountVolume\.\w+ failed for volume .+?)\s*$"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-network",
        "The pod's node cannot set up its sandbox and network[: {reason}].",
        "See whether the network plugin (CNI, Multus) runs on that node, and has the networks that are asked for"
        f" ({_ROLE}networks).",
        sign("FailedCreatePodSandBox", r"FailedCreatePodSandBox:?\s+(?P<reason>.+?)\s*$"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-start",
        "The container cannot be started[: {reason}].",
        f"See whether the image has the program: {_ROLE}command, or {_ROLE}python_interpreter.",
        sign("RunContainerError"),
        sign("CreateContainerError"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-crash",
        "[The container {container}|A container] of the pod ended[: {reason}].",
        "Mend what its log tells: kubectl logs --previous.",
        sign("CrashLoopBackOff"),
        primacy=EFFECT,
        found_by=_BY_PODS,
    ),
    entry(
        "pod-failed",
        "The pod ended[: {reason}].",
        "See kubectl describe pod.",
        sign("cannot exec into a container in a completed pod"),
        primacy=EFFECT,
        found_by=_BY_PODS,
    ),
    entry(
        "pod-not-ready",
        "The pod runs and is not ready[: {reason}].",
        "See why its readiness probe fails, in its log.",
        primacy=EFFECT,
        found_by=_BY_PODS,
    ),
    entry(
        "pod-starting",
        "The pod is still being started, or cannot be[: {reason}].",
        "Give it more time ([{timeout}|worker_pods_timeout]), or see kubectl describe pod.",
        primacy=EFFECT,
        found_by=_BY_PODS,
    ),
    entry(
        "pod-deleted",
        "The pod is being deleted.",
        "Wait until it is gone; one that stays is looked into by kubectl describe pod.",
        found_by=_BY_PODS,
    ),
    entry(
        "kube-leftovers",
        "What the run made in the cluster could not be removed.",
        "Remove it: kubectl delete --selector gpufabric.nccl/run=[{run_id}|RUN_ID][ --namespace {namespace}]"
        " statefulset,service,networkpolicy,mpijob,configmap.",
        severity="warning",
        found_by=_BY_PODS,
    ),
    entry(
        "dns-bare-name",
        "The cluster's DNS has no pod under its bare name.",
        "Write [{full}|POD.SERVICE.NAMESPACE.svc] in the hostfile; the pod needs a hostname, and a subdomain that is the name of a headless"
        " Service.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-other-namespace",
        "The name is of [namespace {other}|another namespace], the pods were looked for in [namespace {namespace}|gpufabric_namespace].",
        "Correct the hostfile, or set gpufabric_namespace.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-no-service",
        "There is no Service [{service}|of that name][ in namespace {namespace}].",
        "Create it, headless (clusterIP: None), with a selector that takes the worker pods. Where the MPI Operator is to make it: see"
        " kubectl describe mpijob; cleanPodPolicy must leave it. Or write the names of another Service.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-service-not-headless",
        "The Service[ {service}] is not headless, so DNS has its own address, and none for its pods for sure.",
        "Delete it and create it with clusterIP: None; that cannot be changed later.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-no-endpoints",
        "The Service[ {service}] has no endpoints.",
        "See whether its selector takes the worker pods, and whether they are ready: kubectl get pods --show-labels.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-no-endpoint",
        "The pod is not among the ready endpoints of the Service[ {service}].",
        "See whether the pod is there, is ready, and has that hostname and subdomain, and whether the cluster's controllers work: kubectl"
        " describe endpoints[ {service}]. Where the Service has no selector: give it one, or add the pod's address and hostname to the"
        " Endpoints.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-no-pod",
        "There is no such pod in [namespace {namespace}|the namespace].",
        "Correct the hostfile, or see why the pod was not created: kubectl get events.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-pod-ended",
        "The pod has ended or is being deleted[ ({state})], and DNS drops such pods.",
        "Run the job anew.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-pod-not-ready",
        "The pod is not ready, and DNS has ready pods only.",
        "Mend what keeps it from that; names of pods that have an address and are not ready yet resolve where the Service has"
        " publishNotReadyAddresses: true.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-pod-subdomain",
        "The pod's subdomain is [{subdomain}|wrong], and must be the Service's name[, {service}].",
        "Create the pod with subdomain: [{service}|SERVICE]; or write the names of the Service that has its subdomain's name.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-pod-hostname",
        "The pod's hostname is not what its name in the hostfile begins with, and without one DNS has no name for it.",
        "Create the pod with that hostname; a StatefulSet does so by itself.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-selector",
        "The selector of the Service[ {service}] does not take the pod[: {differences}].",
        "Correct the Service's selector, or the pod's labels.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-no-nameserver",
        "The launcher has no name server.",
        _DNS_POLICY,
        found_by=_BY_DNS,
    ),
    entry(
        "dns-search-domain",
        "The launcher's search domains do not complete the name to the one that the cluster has.",
        f"Set rewrite_fqdn to auto or true, or write [{{full}}|the whole name] in the hostfile. {_DNS_POLICY}",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-own-nameserver",
        "The launcher asks a name server of its own machine, not the cluster's.",
        _DNS_POLICY,
        found_by=_BY_DNS,
    ),
    entry(
        "dns-server-silent",
        "The cluster's name server does not answer, or refuses to.",
        "See whether the cluster's DNS runs (its pods, often k8s-app=kube-dns in kube-system, and their log), and whether a"
        " NetworkPolicy keeps the launcher from port 53.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-cached",
        "As far as could be looked at the cluster has what the name needs, and the name server still says that there is none: it may keep"
        " an earlier answer, as a rule for 30 s.",
        "Wait longer (timeout), or begin later, once the pods are ready; restart the cluster's DNS pods if it stays. With expected and"
        " use_expected the hostfile needs no DNS.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-hosts-file",
        "The launcher's /etc/hosts has another address for the name than the pod has.",
        "Take the entry out of it, or out of the launcher's hostAliases.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-pod-replaced",
        "The pod was replaced since its address was asked for, and the name is that of the new one.",
        "Run again, and see why the pod was replaced: kubectl get events.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-stale-endpoint",
        "The endpoints of the Service[ {service}] still have the address of an earlier pod of the same name.",
        "Delete the old job fully, with its Service, before the next of that name, or give each job a name of its own. Until the record"
        " goes, use_expected takes the addresses as the cluster has them. Endpoints of a Service without a selector nobody corrects: do so,"
        " or delete them.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-stale-record",
        "The name server still has the address of an earlier pod of the same name.",
        "Wait longer than it keeps records, as a rule 30 s (timeout). Give each job a name of its own, or delete the old one fully, with"
        " its Service, before the next. Until the record goes, use_expected takes the addresses as the cluster has them.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-not-looked-at",
        "[The {kinds} of namespace {namespace}|Services, Endpoints or pods] could not be looked at, so the cause may be there.",
        "Let the user get and list them.",
        severity="warning",
        found_by=_BY_DNS,
    ),
    entry(
        "operator-missing",
        "The MPI Operator is not in this cluster: it knows no MPIJob of kubeflow.org/v2beta1.",
        "Install it (https://github.com/kubeflow/mpi-operator), or use the playbook gpufabric.nccl.kubernetes, which needs none.",
        found_by="mpijob",
    ),
    entry(
        "mpijob-name-taken",
        "There is an MPIJob[ {name}] that no run of this name has made.",
        "Set gpufabric_run_id to another name.",
        found_by="mpijob",
    ),
    entry(
        "operator-idle",
        "No MPI Operator has taken note of the MPIJob[ within {seconds} s].",
        "See whether one runs and watches this namespace: kubectl get pods --all-namespaces, kubectl describe mpijob; it must know"
        " kubeflow.org/v2beta1.",
        found_by="mpijob",
    ),
    entry(
        "mpijob-suspended",
        "The MPIJob is suspended.",
        "Let the queue that holds it (such as Kueue) admit it, or resume it: spec.runPolicy.suspend.",
        primacy=CAUSE - 20,
        found_by="mpijob",
    ),
    entry(
        "mpijob-deleted",
        "The MPIJob was deleted while it ran.",
        "Find out who did so, and run again.",
        found_by="mpijob",
    ),
    entry(
        "mpijob-timeout",
        "The MPIJob did not end [within {seconds} s|in time][, at its stage {stage}].",
        "Give it more time (mpijob_start_timeout, mpijob_timeout), or mend what is said of its pods.",
        primacy=ECHO,
        found_by="mpijob",
    ),
    entry(
        "mpijob-failed",
        "The operator says that the MPIJob failed[: {reason}].",
        "Mend what it names.",
        primacy=ECHO,
        found_by="mpijob",
    ),
    entry(
        "launcher-failed",
        "The launcher ended [with {outcome} ]before any program was run.",
        _MEND_JOB,
        primacy=EFFECT,
        found_by="mpijob",
    ),
    *(
        entry(f"launcher-{stage}", f"The launcher ended: [{{reason}}|{what}].", _MEND_JOB, found_by="mpijob")
        for stage, what in (
            ("account", "its user id has no entry in /etc/passwd"),
            ("keys", "it has no key to log in with"),
            ("hostfile", "its hostfile does not list the workers that were asked for"),
        )
    ),
    entry(
        "names-unresolved",
        "In time, the launcher could not resolve the names of [{some} workers|workers].",
        "See whether these pods are ready, and whether the Service [{service} (or {service}-worker) |]has endpoints: kubectl get endpoints;"
        " give it more time (mpijob_dns_timeout), or set mpijob_rewrite_fqdn and mpijob_cluster_domain.",
        found_by="mpijob",
    ),
    entry(
        "ssh-failed",
        "The launcher cannot log in to [{some} workers|workers].",
        "See the log of these pods for what their sshd says; compare mpijob_ssh_port and mpijob_worker_mode with the image.",
        primacy=EFFECT,
        found_by="mpijob",
    ),
    entry(
        "mpirun-failed",
        "mpirun cannot start a program on the workers[: {reason}].",
        "Mend what it says; all pods need the same Open MPI.",
        primacy=EFFECT,
        found_by="mpijob",
    ),
    entry(
        "run-failed",
        "mpirun [ended with exit status {status}|failed, or was ended].",
        "Read what it printed[, in {path}].",
        primacy=ECHO,
        found_by="mpijob",
    ),
    entry(
        "run-timeout",
        "The program did not end [within {seconds} s|in time] and was ended.",
        "Give it more time (nccl_benchmark_timeout), or find out what it waits for in its output.",
        primacy=ECHO,
        found_by="mpijob",
    ),
    entry(
        "run-missing",
        "The launcher's log does not say that the program was started.",
        "Read the log[, {path}]; see whether it is whole.",
        primacy=ECHO,
        found_by="mpijob",
    ),
)
