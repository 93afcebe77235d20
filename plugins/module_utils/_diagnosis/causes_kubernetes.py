# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: the Kubernetes API, pods, names in a cluster, and MPIJobs."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis.entry import (
    CAUSE,
    ECHO,
    EFFECT,
    entry,
    signature,
)

_DNS_POLICY = "Create the launcher with dnsPolicy ClusterFirst (with hostNetwork: ClusterFirstWithHostNet)."
_MEND_JOB = "Repair what its log names; see kubectl describe mpijob."
_BY_PODS = "worker_pods, mpijob"
_BY_DNS = "mpi_hostfile, with worker_pods"
#: What the variables of the role begin with.
_ROLE = "[{prefix}|worker_pods_]"
#: How some rules for pods begin to say what they refuse.
_REFUSALS = r"(?:maximum|minimum) \S+ usage per|failed quota:|ValidatingAdmissionPolicy|no PriorityClass"
#: What the API server refuses for other reasons than a user's rights.
_RULES = (
    rf"exceeded quota|violates PodSecurity|denied the request|{_REFUSALS}|error looking up service account"
    r"|unable to validate against any security context constraint"
)
#: Reasons of HTTP that pass: those of API servers, nginx and HAProxy.
_PASSES = "Bad Gateway|Gateway Time-?out|Service (?:Temporarily )?Unavailable|Too Many Requests"

ENTRIES = (
    entry(
        "kube-unreachable",
        "The API server of the cluster does not answer[: {reason}].",
        "Check that it runs and that this machine reaches it: kubectl cluster-info. Check the address in the"
        " kubeconfig, proxy settings, VPN and firewall.",
        signature("Unable to connect to the server", r"Unable to connect to the server: (?P<reason>(?!.*x509).+)"),
        signature("The connection to the server", r"The connection to the server (?P<reason>.+? was refused)"),
        signature(
            "Max retries exceeded with url",
            r"(?P<reason>HTTPS?ConnectionPool\([^)]*\): Max retries exceeded)(?!.*CERTIFICATE_VERIFY_FAILED)",
        ),
        # What stands before it accepts connections, or a program of the kubeconfig that logs in waits for somebody.
        signature("The API server gave no answer in", r"The API server gave (?P<reason>no answer in \d+ s)"),
        # It is being restarted, or its etcd is.
        signature(
            "currently unable to handle the request",
            r"(?P<reason>the server is currently unable to handle the request)",
        ),
        signature(
            "unable to return a response in the time allotted",
            r"(?:^|:)(?P<reason>[^:]* unable to return a response in the time allotted)",
        ),
        signature("etcdserver: ", r"(?P<reason>etcdserver: (?:leader changed|request timed out|no leader)[^\"]*)"),
        signature(
            "did not complete within", r"(?P<reason>request did not complete within (?:the allotted|requested) timeout)"
        ),
        # It has too much to do, or is away from the proxy or load balancer before it.
        signature("Reason: ", rf"^Reason: (?P<reason>{_PASSES})", kinds=("kubernetes", "any")),
        signature("Gateway", rf"<h1>\d+ (?P<reason>{_PASSES})", kinds=("kubernetes", "any")),
        signature("Unavailable", rf"<h1>\d+ (?P<reason>{_PASSES})", kinds=("kubernetes", "any")),
        signature("Too many requests, please try again", r"(?P<reason>[Tt]oo many requests, please try again later)"),
    ),
    entry(
        "kube-token-expired",
        "The cluster does not know the user: the token or certificate has expired, belongs to another cluster, or could not be obtained.",
        "Log in again, or use a fresh kubeconfig (gpufabric_kubeconfig). Then run the same command again, or the playbook teardown, which"
        " removes what is left. If the kubeconfig calls a program to log in, kubectl get pods shows what that program prints. A long job"
        " needs a token that lasts.",
        signature("You must be logged in to the server"),
        signature("the server has asked for the client to provide credentials"),
        signature("Unauthorized", r"Reason: Unauthorized|\"reason\": ?\"Unauthorized\"|token (?:has )?expired"),
        # As kubernetes.core shortens it, or hands on the answer of a proxy. The word alone may be any program's.
        signature(
            "Unauthorized",
            r"Failed to \w+ (?:node '[^']*' due to|(?:\w+ )?object): Unauthorized\s*$",
            kinds=("kubernetes", "any"),
        ),
        # The Python client goes on without a user if that program fails.
        signature("system:anonymous", r"User \"system:anonymous\" cannot "),
    ),
    entry(
        "kube-forbidden",
        "The account of the kubeconfig may not [{rights}|do that][ in namespace {namespace}].",
        "Ask for a Role (for nodes, a ClusterRole) with these rights: kubectl auth can-i --list[; or adopt pods that exist: {adopting}][; or"
        " let a user who has the rights apply what {rendering} writes].",
        signature("Error from server (Forbidden)", rf"Error from server \(Forbidden\): (?!.*(?: cannot |{_RULES}))"),
        signature(
            "cannot",
            r"User \"(?!system:anonymous\")[^\"]+\" cannot (?P<rights>\w+ (?:resource|path) \"[^\"]+\")(?: in API group \"[^\"]*\")?"
            r"(?: in the namespace \"(?P<namespace>[^\"]+)\")?",
        ),
        found_by=_BY_PODS,
    ),
    entry(
        "kube-certificate",
        "kubectl does not trust the certificate of the API server[: {reason}].",
        "Use the kubeconfig of this cluster. If a certificate has expired, renew it; if a clock is off, set it.",
        signature("certificate", r"x509: (?P<reason>certificate .+)"),
        signature(
            "CERTIFICATE_VERIFY_FAILED", r"CERTIFICATE_VERIFY_FAILED\] (?P<reason>certificate verify failed: [^(]+?) \("
        ),
    ),
    entry(
        "kube-config",
        "The configuration for the cluster is not usable[: {reason}].",
        "Set gpufabric_kubeconfig and, if it has several contexts, gpufabric_kube_context. Without them, KUBECONFIG"
        " or ~/.kube/config count.",
        signature("Invalid kube-config file", r"(?P<reason>Invalid kube-config file\. .+?)\.?$"),
        signature(
            "Could not find or access", r"(?P<reason>Could not find or access '.+?')", kinds=("kubernetes", "any")
        ),
    ),
    entry(
        "kube-namespace",
        "The cluster has no namespace [{namespace}|of that name].",
        "Correct gpufabric_namespace, or create the namespace: kubectl create namespace.",
        signature("namespaces", r"namespaces \"(?P<namespace>[^\"]+)\" not found"),
        found_by=_BY_PODS,
    ),
    entry(
        "kube-webhook",
        "An admission webhook of the cluster does not answer[: {reason}].",
        "Repair its service, or have its rules leave out this namespace: kubectl get"
        " validatingwebhookconfigurations,mutatingwebhookconfigurations.",
        signature("failed calling webhook", r"failed calling webhook \\*\"(?P<reason>[^\"\\]+)"),
        found_by=_BY_PODS,
    ),
    entry(
        "kubectl-missing",
        "The controller has no kubectl, which the collection uses to reach pods.",
        "Install kubectl in a directory of PATH.",
        signature("kubectl command not found"),
    ),
    entry(
        "kube-exec-failed",
        "The cluster cannot start a program in the pod[: {reason}].",
        "Check that the node of the pod is Ready and that the API server reaches its kubelet (port 10250). An image"
        " without a shell or Python cannot run a task.",
        signature("unable to upgrade connection", r"unable to upgrade connection: (?P<reason>.+)"),
        signature("error dialing backend", r"(?P<reason>error dialing backend: .+)"),
        signature("OCI runtime exec failed", r"OCI runtime exec failed: (?P<reason>(?!.*executable file not found).+)"),
        found_by="worker_pods",
        source="Kubernetes, the API server's and the kubelet's messages, and runc",
    ),
    entry(
        "interpreter-missing",
        "The host, or the pod's container, does not have [{program}|the Python interpreter].",
        "Install Python 3, or set ansible_python_interpreter (worker_pods_python_interpreter,"
        " mpijob_python_interpreter) to its path. In a pod with several containers, set worker_pods_container to the one that has it.",
        signature("The module interpreter", r"The module interpreter '(?P<program>.+?)' was not found"),
        found_by="worker_pods",
    ),
    entry(
        "pod-missing",
        "The pod does not exist[: none has the labels {labels}].",
        "Run kubectl get pods --show-labels and kubectl get events to see whether it was deleted or never created;"
        " correct [{setting}|worker_pods_names or worker_pods_selector].",
        signature("Error from server (NotFound)", r"\(NotFound\): pods \"(?P<host>[^\"]+)\" not found"),
        found_by="worker_pods",
    ),
    entry(
        "pod-evicted",
        "The pod was evicted[: {reason}].",
        f"Set requests and limits that fit ({_ROLE}resources), or use a node with more room; see kubectl describe"
        " node.",
        signature("The node was low on resource", r"(?P<reason>The node was low on resource: [\w-]+)"),
        signature(
            "ephemeral local storage usage exceeds",
            r"(?<!\S)(?P<reason>\S+ ephemeral local storage usage exceeds .+?)\.?\s*$",
        ),
        signature("TaintManagerEviction"),
        precedence=CAUSE - 15,
        statuses=(137, 143),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-lost",
        "The pod was deleted during the run[, and another one (uid {uid}) now has its name].",
        "Find out what deleted it, such as a drain of its node (kubectl get events), and run again.",
        precedence=CAUSE - 15,
        found_by=_BY_PODS,
    ),
    entry(
        "pod-restarted",
        "The pod's container ended during the run and has started again[: {reason}].",
        "Run kubectl logs --previous to see why it ended; then run again.",
        precedence=CAUSE - 15,
        found_by="worker_pods",
    ),
    entry(
        "pod-quota",
        "The quota of the namespace does not allow all pods[: {reason}].",
        "Ask for fewer pods, or for less for each pod, or raise the quota: kubectl describe quota.",
        signature("exceeded quota", r"(?P<reason>exceeded quota: .+?)[\"}]*$"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-refused",
        "A rule of the cluster does not allow such pods[: {reason}].",
        f"Change what the rule names ({_ROLE}run_as_user, {_ROLE}capabilities, {_ROLE}host_network, {_ROLE}resources,"
        f" {_ROLE}pod_spec), or have the rule changed: kubectl get events.",
        signature("violates PodSecurity", r"(?P<reason>violates PodSecurity .+?)$"),
        signature("admission webhook", r"(?P<reason>admission webhook .+ denied the request.*?)$"),
        signature("is forbidden", rf"is forbidden: \[?(?P<reason>(?:{_REFUSALS}) .+?)$"),
        signature("is invalid", r"(?:Pod|StatefulSet\S*) \S+ is invalid: (?P<reason>.+?)$"),
        signature("error looking up service account", r"(?P<reason>error looking up service account .+?)$"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-scc",
        "No SCC (security context constraint) of OpenShift allows such pods[: {reason}].",
        "Create the SCC of docs/examples/kubernetes/openshift-scc.yml, which allows root and three capabilities, and let the service account"
        " of the pods use it: oc adm policy add-scc-to-user gpufabric -z default --namespace NAMESPACE. Or set"
        f" {_ROLE}run_as_user to a UID of the namespace's range, and no {_ROLE}capabilities and {_ROLE}host_network.",
        signature(
            "security context constraint",
            r"unable to validate against any security context constraint: \[?(?P<reason>[^,\]]+)",
        ),
        found_by=_BY_PODS,
        source="OpenShift, apiserver-library-go, pkg/securitycontextconstraints/sccadmission/admission.go",
    ),
    entry(
        "pod-not-created",
        "Kubernetes has not created all pods[: {reason}].",
        "Run kubectl describe on the object that creates the pods, and kubectl get events; check that the cluster's"
        " controller manager works.",
        found_by=_BY_PODS,
    ),
    entry(
        "pod-unschedulable",
        "No node takes the pod[: {reason}].",
        "Free or add what is short, or correct what excludes nodes: [{settings}|worker_pods_resources,"
        " worker_pods_node_selector, worker_pods_affinity, worker_pods_tolerations]; see kubectl describe nodes.",
        signature("nodes are available", r"(?<!\d)(?P<reason>\d+/\d+ nodes are available: .+?)\.?\s*$"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-image",
        "The node cannot pull the image[: {reason}].",
        f"Correct {_ROLE}image, or set {_ROLE}image_pull_secrets; check that the node reaches the registry.",
        signature("ImagePullBackOff"),
        signature("ErrImagePull"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-image-absent",
        "The node does not have the image, and may not pull it.",
        f"Load it on the node, or set {_ROLE}image_pull_policy to IfNotPresent.",
        signature("ErrImageNeverPull"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-image-name",
        "The name of the image is not valid.",
        f"Correct {_ROLE}image.",
        signature("InvalidImageName"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-config",
        "The container refers to something that does not exist, or breaks a rule[: {reason}].",
        f"Correct the reference: a Secret, a ConfigMap, a user ({_ROLE}run_as_user).",
        signature("CreateContainerConfigError"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-volume",
        "The node cannot mount a volume of the pod[: {reason}].",
        "Create what the volume refers to, or correct the pod's volumes; see kubectl describe pod.",
        signature("MountVolume", r"(?P<reason>MountVolume\.\w+ failed for volume .+?)\s*$"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-network",
        "The pod's node cannot set up its sandbox and network[: {reason}].",
        f"Check that the network plugin (CNI, Multus) runs on that node and has the networks of {_ROLE}networks.",
        signature("FailedCreatePodSandBox", r"FailedCreatePodSandBox:?\s+(?P<reason>.+?)\s*$"),
        found_by=_BY_PODS,
        source="Kubernetes, pkg/kubelet/events/event.go",
    ),
    entry(
        "pod-start",
        "The node cannot start the container[: {reason}].",
        f"Check that the image has the program: {_ROLE}command, or {_ROLE}python_interpreter.",
        signature("RunContainerError"),
        signature("CreateContainerError"),
        found_by=_BY_PODS,
    ),
    entry(
        "pod-crash",
        "[The container {container}|A container] of the pod ended[: {reason}].",
        "Read its log (kubectl logs [{log}|POD --container NAME --previous]), and repair what it names.",
        signature("CrashLoopBackOff"),
        precedence=EFFECT,
        found_by=_BY_PODS,
    ),
    entry(
        "pod-failed",
        "The pod ended[: {reason}].",
        "Run kubectl describe pod to see why.",
        signature("cannot exec into a container in a completed pod"),
        precedence=EFFECT,
        found_by=_BY_PODS,
        source="kubectl, pkg/cmd/exec/exec.go",
    ),
    entry(
        "pod-not-ready",
        "The pod runs, but is not ready[: {reason}].",
        "Read its log to see why its readiness probe fails.",
        precedence=EFFECT,
        found_by=_BY_PODS,
    ),
    entry(
        "pod-starting",
        "The pod is still starting, or cannot start[: {reason}].",
        "Raise [{timeout}|worker_pods_timeout], or run kubectl describe pod[ and kubectl logs -c {container}].",
        precedence=EFFECT,
        found_by=_BY_PODS,
    ),
    entry(
        "pod-deleted",
        "The pod is being deleted.",
        "Wait until it is gone. If it stays, run kubectl describe pod.",
        found_by=_BY_PODS,
    ),
    entry(
        "kube-leftovers",
        "The run could not remove all that it made in the cluster[: {reason}].",
        "Clear what keeps it there, such as a missing right, a webhook that refuses DELETE, or a finalizer; then remove"
        " it: [{command}|kubectl delete statefulset,networkpolicy,service --selector gpufabric.nccl/run=RUN_ID].",
        severity="warning",
        found_by=_BY_PODS,
    ),
    entry(
        "dns-bare-name",
        "The cluster's DNS does not know the pod by its bare name.",
        "Write [{full}|POD.SERVICE.NAMESPACE.svc] in the hostfile. The pod needs a hostname, and a subdomain that is"
        " the name of a headless Service.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-other-namespace",
        "The name belongs to [namespace {other}|another namespace], but the pods are in [namespace {namespace}|gpufabric_namespace].",
        "Correct the hostfile, or set gpufabric_namespace.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-no-service",
        "The Service [{service}|of that name] does not exist[ in namespace {namespace}].",
        "Create it, headless (clusterIP: None), with a selector that matches the worker pods. If the MPI Operator"
        " should make it, run kubectl describe mpijob; cleanPodPolicy must keep it. Or write the names of another"
        " Service.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-service-not-headless",
        "The Service[ {service}] is not headless, so DNS has the address of the Service instead of those of its pods.",
        "Delete the Service and create it again with clusterIP: None, which cannot be changed later.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-no-endpoints",
        "The Service[ {service}] has no endpoints.",
        "Check that its selector matches the worker pods, and that they are ready: kubectl get pods --show-labels.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-no-endpoint",
        "The pod is not among the ready endpoints of the Service[ {service}].",
        "Check that the pod exists, is ready, and has that hostname and subdomain, and that the cluster's"
        " controllers work: kubectl describe endpoints[ {service}]. If the Service has no selector, give it one, or"
        " add the pod's address and hostname to the Endpoints.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-no-pod",
        "[Namespace {namespace}|The namespace] has no such pod.",
        "Correct the hostfile, or find out why the pod was not created: kubectl get events.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-pod-ended",
        "The pod has ended or is being deleted[ ({state})]. DNS drops such pods.",
        "Run the job again.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-pod-not-ready",
        "The pod is not ready. DNS has ready pods only.",
        "Repair what keeps the pod from being ready. With publishNotReadyAddresses: true of the Service, names of"
        " pods that have an address resolve before the pods are ready.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-pod-subdomain",
        "The pod's subdomain is [{subdomain}|wrong]. It must be the Service's name[, {service}].",
        "Create the pod with subdomain: [{service}|SERVICE]; or write the names of the Service that the subdomain"
        " names.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-pod-hostname",
        "The pod's hostname is not the first part of its name in the hostfile. Without that hostname, DNS has no"
        " name for the pod.",
        "Create the pod with that hostname; a StatefulSet does so.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-selector",
        "The selector of the Service[ {service}] does not match the pod[: {differences}].",
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
        "The launcher's search domains do not complete the name to the one that the cluster knows.",
        f"Set rewrite_fqdn (for an MPIJob mpijob_rewrite_fqdn) to auto or true, or write [{{full}}|the whole name] in the hostfile. {_DNS_POLICY}",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-own-nameserver",
        "The launcher asks a name server of its own machine instead of the cluster's.",
        _DNS_POLICY,
        found_by=_BY_DNS,
    ),
    entry(
        "dns-server-silent",
        "The cluster's name server does not answer, or refuses to.",
        "Check that the cluster's DNS runs (its pods, often k8s-app=kube-dns in kube-system, and their log), and"
        " that no NetworkPolicy keeps the launcher from port 53.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-cached",
        "The cluster seems to have all that the name needs, but the name server still answers that the name does not"
        " exist. It may keep an earlier answer, usually for 30 s.",
        "Wait longer (timeout, for an MPIJob mpijob_dns_timeout), or start after the pods are ready. If it stays, restart the cluster's DNS pods. With"
        " expected and use_expected the hostfile needs no DNS.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-hosts-file",
        "The launcher's /etc/hosts has another address for the name than the pod has.",
        "Remove the entry from it, or from the launcher's hostAliases.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-pod-replaced",
        "The pod was replaced after its address was looked up, and the name now belongs to the new pod.",
        "Run again, and find out why the pod was replaced: kubectl get events.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-stale-endpoint",
        "The endpoints of the Service[ {service}] still have the address of an earlier pod of the same name.",
        "Delete the old job completely, with its Service, before you create the next job of that name, or give each"
        " job a name of its own. Until the record is gone, use_expected takes the addresses that the cluster has."
        " Correct or delete the Endpoints of a Service without a selector by hand.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-stale-record",
        "The name server still has the address of an earlier pod of the same name.",
        "Wait until the name server drops the record, usually 30 s (timeout, for an MPIJob mpijob_dns_timeout). Give each job a name of its own, or"
        " delete the old job completely, with its Service, before the next one. Until the record is gone,"
        " use_expected takes the addresses that the cluster has.",
        found_by=_BY_DNS,
    ),
    entry(
        "dns-not-looked-at",
        "The user may not read [the {kinds} of namespace {namespace}|Services, Endpoints or pods], so the cause may"
        " be there.",
        "Let the user get and list them.",
        severity="warning",
        found_by=_BY_DNS,
    ),
    entry(
        "operator-missing",
        "The cluster has no MPI Operator: it does not know MPIJob of kubeflow.org/v2beta1.",
        "Install it (https://github.com/kubeflow/mpi-operator), or use the playbook gpufabric.nccl.kubernetes, which needs none.",
        found_by="mpijob",
    ),
    entry(
        "pod-host-name",
        "The inventory has a host or group of this pod's name, which is not the pod.",
        "Rename it in the inventory, use an inventory without it (-i localhost,), or adopt pods with other names.",
        found_by="worker_pods",
    ),
    entry(
        "kube-name-taken",
        "[{object}|An object that the run would make] exists already, and the run[ {run_id}] has not made it.",
        "Set gpufabric_run_id[, or {setting},] to another name, or remove that object if nobody needs it.",
        found_by="worker_pods and mpijob",
    ),
    entry(
        "operator-idle",
        "No MPI Operator has reacted to the MPIJob[ within {seconds} s].",
        "Check that an operator runs and watches this namespace: kubectl get pods --all-namespaces, kubectl describe"
        " mpijob. It must know kubeflow.org/v2beta1.",
        found_by="mpijob",
    ),
    entry(
        "mpijob-suspended",
        "The MPIJob is suspended.",
        "Let the queue that holds it (such as Kueue) admit it, or resume it: spec.runPolicy.suspend.",
        precedence=CAUSE - 20,
        found_by="mpijob",
    ),
    entry(
        "mpijob-deleted",
        "The MPIJob was deleted while it ran.",
        "Find out what deleted it, and run again.",
        found_by="mpijob",
    ),
    entry(
        "mpijob-timeout",
        "The MPIJob did not end [within {seconds} s|in time][, at its stage {stage}].",
        "Raise mpijob_start_timeout or mpijob_timeout, or repair what the problems of its pods name.",
        precedence=ECHO,
        found_by="mpijob",
    ),
    entry(
        "mpijob-failed",
        "The operator reports that the MPIJob failed[: {reason}].",
        "Repair what it names.",
        precedence=ECHO,
        found_by="mpijob",
    ),
    entry(
        "log-cut",
        "The program printed so much that the launcher shows only its beginning and its end.",
        "See in launcher.log what repeats, such as NCCL_DEBUG=INFO. To see all of it, adopt a job (mpijob_state adopted), or run the"
        " playbook kubernetes.",
        severity="warning",
        found_by="mpijob",
    ),
    entry(
        "launcher-failed",
        "The launcher ended [with {outcome} ]before any program was run.",
        _MEND_JOB,
        precedence=EFFECT,
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
        "The launcher could not resolve the names of [{some} workers|workers] in time.",
        "Check that these pods are ready, and that the Service [{service} (or {service}-worker) |]has endpoints:"
        " kubectl get endpoints. Raise mpijob_dns_timeout, or set mpijob_rewrite_fqdn and mpijob_cluster_domain.",
        found_by="mpijob",
    ),
    entry(
        "ssh-failed",
        "The launcher cannot log in to [{some} workers|workers].",
        "Read the log of these pods for what sshd printed; compare mpijob_ssh_port and mpijob_worker_mode with the"
        " image.",
        precedence=EFFECT,
        found_by="mpijob",
    ),
    entry(
        "mpirun-failed",
        "mpirun cannot start a program on the workers[: {reason}].",
        "Repair what it names; all pods need the same Open MPI.",
        precedence=EFFECT,
        found_by="mpijob",
    ),
    entry(
        "run-failed",
        "mpirun [ended with exit status {status}|failed, or was ended].",
        "Read what mpirun printed[, in {path}].",
        precedence=ECHO,
        found_by="mpijob",
    ),
    entry(
        "run-timeout",
        "The program did not end [within {seconds} s|in time] and was ended.",
        "Raise nccl_benchmark_timeout, or find out from the output what the program waits for.",
        precedence=ECHO,
        found_by="mpijob",
    ),
    entry(
        "run-missing",
        "The launcher's log does not show that the program started.",
        "Read the log[, {path}], and check that it is complete.",
        precedence=ECHO,
        found_by="mpijob",
    ),
)
