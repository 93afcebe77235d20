# Copyright (c) 2026, gpufabric contributors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

# Private to the collection: it may change in any release.

"""Causes: the Kubernetes API, pods, names in a cluster, and MPIJobs."""

from __future__ import annotations

from ansible_collections.gpufabric.nccl.plugins.module_utils._diagnosis_entry import CAUSE, ECHO, EFFECT, entry, sign

_RIGHTS = "Have the rights added to the account of the kubeconfig: kubectl auth can-i create pods/exec -n NAMESPACE."
_DNS_POLICY = "Create the launcher with dnsPolicy ClusterFirst (with hostNetwork: ClusterFirstWithHostNet)."
_MEND_JOB = "Mend what its log tells; see kubectl describe mpijob."

ENTRIES = (
    entry(
        "kube-unreachable",
        "The API server of the cluster does not answer[: {reason}].",
        "See whether it runs and can be reached from here: kubectl cluster-info; proxy settings, VPN and firewall are often in the way.",
        sign("Unable to connect to the server", r"Unable to connect to the server: (?P<reason>(?!.*x509).+)"),
        sign("The connection to the server", r"The connection to the server (?P<reason>.+ was refused)"),
        sign("Max retries exceeded with url", r"(?P<reason>HTTPS?ConnectionPool.*Max retries exceeded)"),
    ),
    entry(
        "kube-token-expired",
        "The cluster does not know who is asking: the token has expired, or is of another cluster.",
        "Log in again, or take a fresh kubeconfig; a job that runs for long needs a token that lasts.",
        sign("You must be logged in to the server"),
        sign("the server has asked for the client to provide credentials"),
        sign("Unauthorized", r"Reason: Unauthorized|\"reason\": ?\"Unauthorized\"|token (?:has )?expired"),
    ),
    entry(
        "kube-forbidden",
        "The account of the kubeconfig is not allowed to do that[: {reason}].",
        _RIGHTS,
        sign("Error from server (Forbidden)", r"Error from server \(Forbidden\): (?P<reason>.+)"),
        sign("cannot", r"User \"[^\"]+\" (?P<reason>cannot \w+ resource \"[^\"]+\".*)"),
    ),
    entry(
        "kube-certificate",
        "The certificate of the API server is not trusted[: {reason}].",
        "Take the kubeconfig of this cluster; where a certificate has expired, or a clock is off, mend that.",
        sign("certificate", r"x509: (?P<reason>certificate .+)"),
    ),
    entry(
        "kube-exec-failed",
        "The cluster cannot start a program in the pod[: {reason}].",
        "See whether the node of the pod is Ready and the API server reaches its kubelet (port 10250); in an image without a shell or"
        " Python, nothing can be started.",
        sign("unable to upgrade connection", r"unable to upgrade connection: (?P<reason>.+)"),
        sign("error dialing backend", r"(?P<reason>error dialing backend: .+)"),
        sign("OCI runtime exec failed", r"OCI runtime exec failed: (?P<reason>(?!.*executable file not found).+)"),
    ),
    entry(
        "pod-missing",
        "There is no such pod.",
        "See whether it was deleted or never created: kubectl get pods, kubectl get events.",
        sign("Error from server (NotFound)", r"\(NotFound\): pods \"(?P<host>[^\"]+)\" not found"),
    ),
    entry(
        "pod-evicted",
        "The pod was evicted from its node[, which ran low on {resource}].",
        "Give it requests that fit (worker_pods_resources), or a node with more room; see kubectl describe node.",
        sign("The node was low on resource", r"low on resource: (?P<resource>[\w-]+)"),
        sign("ephemeral local storage usage exceeds", r"(?P<resource>ephemeral)"),
        sign("TaintManagerEviction"),
        primacy=CAUSE - 15,
        statuses=(137, 143),
    ),
    entry(
        "pod-lost",
        "The pod was deleted, ended or was started anew during the run.",
        "Find out who or what did so (kubectl get events), and run again.",
        primacy=CAUSE - 15,
        found_by="worker_pods",
    ),
    entry(
        "pod-not-created",
        "Not all pods could be created: a quota, or a rule of the cluster, does not let them.",
        "Ask for fewer pods or less for each, or change what the rule names: kubectl describe quota, kubectl get events.",
        sign("exceeded quota", r"exceeded quota: \S+"),
        sign("violates PodSecurity"),
        found_by="worker_pods, mpijob",
    ),
    entry(
        "pod-unschedulable",
        "No node takes the pod[: {reason}].",
        "Free or add what is short, or correct worker_pods_node_selector, worker_pods_affinity and worker_pods_tolerations.",
        sign("nodes are available", r"(?P<reason>\d+/\d+ nodes are available: .+)"),
        found_by="worker_pods, mpijob",
    ),
    entry(
        "pod-image",
        "The image cannot be pulled.",
        "Correct worker_pods_image, or set worker_pods_image_pull_secrets; see whether the node reaches the registry.",
        sign("ImagePullBackOff"),
        sign("ErrImagePull"),
        sign("ErrImageNeverPull"),
        sign("InvalidImageName"),
        found_by="worker_pods, mpijob",
    ),
    entry(
        "pod-config",
        "The container names something that is not there, or breaks a rule.",
        "Correct what is named: a Secret, a ConfigMap, a user (worker_pods_run_as_user).",
        sign("CreateContainerConfigError"),
        found_by="worker_pods, mpijob",
    ),
    entry(
        "pod-start",
        "The container cannot be started.",
        "See whether the image has the program: worker_pods_python_interpreter, or worker_pods_command.",
        sign("RunContainerError"),
        sign("CreateContainerError"),
        found_by="worker_pods, mpijob",
    ),
    entry(
        "pod-crash",
        "A container of the pod ended.",
        "Mend what its log tells: kubectl logs --previous.",
        sign("CrashLoopBackOff"),
        primacy=EFFECT,
        found_by="worker_pods, mpijob",
    ),
    entry(
        "pod-failed",
        "The pod ended.",
        "See kubectl describe pod.",
        sign("cannot exec into a container in a completed pod"),
        primacy=EFFECT,
        found_by="worker_pods, mpijob",
    ),
    entry(
        "pod-not-ready",
        "The pod runs and is not ready.",
        "See why its readiness probe fails, in its log.",
        primacy=EFFECT,
        found_by="worker_pods, mpijob",
    ),
    entry(
        "pod-starting",
        "The pod is still being started, or cannot be.",
        "Give it more time (worker_pods_timeout), or see kubectl describe pod.",
        primacy=EFFECT,
        found_by="worker_pods, mpijob",
    ),
    entry(
        "pod-deleted",
        "The pod is being deleted.",
        "Wait until it is gone; one that stays is looked into by kubectl describe pod.",
        found_by="worker_pods, mpijob",
    ),
    *(
        entry(identity, cause, cure, found_by="mpi_hostfile, with worker_pods", severity=severity)
        for identity, cause, cure, severity in (
            (
                "dns-bare-name",
                "The cluster's DNS has no pod under its bare name.",
                "Write POD.SERVICE.NAMESPACE.svc in the hostfile; the pod needs a hostname and a subdomain that is the Service's name.",
                "error",
            ),
            (
                "dns-other-namespace",
                "The name is of another namespace than the pods were looked for in.",
                "Correct the hostfile, or set gpufabric_namespace.",
                "error",
            ),
            (
                "dns-no-service",
                "There is no Service of that name.",
                "Create it, headless (clusterIP: None), with a selector that takes the worker pods. Where the MPI Operator is to make it:"
                " see kubectl describe mpijob; cleanPodPolicy must leave it.",
                "error",
            ),
            (
                "dns-service-not-headless",
                "The Service is not headless, so DNS has its own address, and none for its pods for sure.",
                "Delete it and create it with clusterIP: None; that cannot be changed later.",
                "error",
            ),
            (
                "dns-no-endpoints",
                "The Service has no endpoints.",
                "See whether its selector takes the worker pods, and whether they are ready: kubectl get pods --show-labels.",
                "error",
            ),
            (
                "dns-no-endpoint",
                "The pod is not among the ready endpoints of the Service.",
                "See whether the pod is ready and has that hostname and subdomain, and whether the cluster's controllers work: kubectl"
                " describe endpoints.",
                "error",
            ),
            (
                "dns-no-pod",
                "There is no such pod in the namespace.",
                "Correct the hostfile, or see why the pod was not created: kubectl get events.",
                "error",
            ),
            ("dns-pod-ended", "The pod has ended, and DNS drops such pods.", "Run the job anew.", "error"),
            (
                "dns-pod-not-ready",
                "The pod is not ready, and DNS has ready pods only.",
                "Mend what keeps it from that; names of pods that are not ready yet resolve where the Service has"
                " publishNotReadyAddresses: true.",
                "error",
            ),
            (
                "dns-pod-subdomain",
                "The pod's subdomain is not the Service's name.",
                "Create the pod with subdomain set to it.",
                "error",
            ),
            (
                "dns-pod-hostname",
                "The pod's hostname is not what its name in the hostfile begins with, and without one DNS has no name for it.",
                "Create the pod with that hostname; a StatefulSet does so by itself.",
                "error",
            ),
            (
                "dns-selector",
                "The selector of the Service does not take the pod.",
                "Correct the Service's selector, or the pod's labels.",
                "error",
            ),
            ("dns-no-nameserver", "The launcher has no name server.", _DNS_POLICY, "error"),
            (
                "dns-search-domain",
                "The launcher's search domains do not complete the name to the one that the cluster has.",
                f"Set rewrite_fqdn to auto or true, or write the whole name. {_DNS_POLICY}",
                "error",
            ),
            (
                "dns-own-nameserver",
                "The launcher asks a name server of its own machine, not the cluster's.",
                _DNS_POLICY,
                "error",
            ),
            (
                "dns-server-silent",
                "The cluster's name server does not answer, or refuses to.",
                "See whether the cluster's DNS runs (its pods, often k8s-app=kube-dns in kube-system, and their log), and whether a"
                " NetworkPolicy keeps the launcher from port 53.",
                "error",
            ),
            (
                "dns-cached",
                "The cluster has what the name needs, and the name server still says that there is none: it keeps an earlier answer.",
                "Wait longer (timeout), or begin later, once the pods are ready. With expected and use_expected the hostfile needs no DNS.",
                "error",
            ),
            (
                "dns-hosts-file",
                "The launcher's /etc/hosts has another address for the name than the pod has.",
                "Take the entry out of it, or out of the launcher's hostAliases.",
                "error",
            ),
            (
                "dns-pod-replaced",
                "The pod was replaced since its address was asked for, and the name is that of the new one.",
                "Run again, and see why the pod was replaced: kubectl get events.",
                "error",
            ),
            (
                "dns-stale-endpoint",
                "The endpoints of the Service still have the address of an earlier pod of the same name.",
                "Delete the old job fully, with its Service, before the next of that name, or give each job a name of its own.",
                "error",
            ),
            (
                "dns-stale-record",
                "The name server still has the address of an earlier pod of the same name.",
                "Wait longer than it keeps records, as a rule 30 s (timeout); use_expected takes the addresses as the cluster has them.",
                "error",
            ),
            (
                "dns-not-looked-at",
                "Services, Endpoints or pods could not be looked at, so the cause may be there.",
                "Let the user get and list them.",
                "warning",
            ),
        )
    ),
    entry(
        "operator-idle",
        "No MPI Operator has taken note of the MPIJob.",
        "See whether one runs and watches this namespace: kubectl get pods --all-namespaces; it must know kubeflow.org/v2beta1.",
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
        "The MPIJob did not end in time.",
        "Give it more time (mpijob_start_timeout, mpijob_timeout), or mend what is said of its pods.",
        primacy=ECHO,
        found_by="mpijob",
    ),
    entry(
        "mpijob-failed",
        "The operator says that the MPIJob failed.",
        "Mend what it names.",
        primacy=ECHO,
        found_by="mpijob",
    ),
    entry(
        "launcher-failed",
        "The launcher ended before any program was run.",
        _MEND_JOB,
        primacy=EFFECT,
        found_by="mpijob",
    ),
    *(
        entry(f"launcher-{stage}", f"The launcher ended: {what}.", _MEND_JOB, found_by="mpijob")
        for stage, what in (
            ("account", "its user id has no entry in /etc/passwd"),
            ("keys", "it has no key to log in with"),
            ("sshd", "sshd does not start in a pod"),
            ("hostfile", "its hostfile does not list the workers that were asked for"),
        )
    ),
    entry(
        "names-unresolved",
        "In time, the launcher could not resolve the names of workers.",
        "See whether these pods are ready, and whether the Service has endpoints: kubectl get endpoints; give it more time"
        " (mpijob_dns_timeout), or set mpijob_rewrite_fqdn and mpijob_cluster_domain.",
        found_by="mpijob",
    ),
    entry(
        "ssh-failed",
        "The launcher cannot log in to workers.",
        "See the log of these pods for what their sshd says; compare mpijob_ssh_port and mpijob_worker_mode with the image.",
        primacy=EFFECT,
        found_by="mpijob",
    ),
    entry(
        "mpirun-failed",
        "mpirun cannot start a program on the workers.",
        "Mend what it says; all pods need the same Open MPI.",
        primacy=EFFECT,
        found_by="mpijob",
    ),
    entry(
        "run-failed",
        "mpirun failed, or was ended.",
        "Read what it printed.",
        primacy=ECHO,
        found_by="mpijob",
    ),
    entry(
        "run-timeout",
        "The program did not end in time and was ended.",
        "Give it more time (nccl_benchmark_timeout), or find out what it waits for in its output.",
        primacy=ECHO,
        found_by="mpijob",
    ),
    entry(
        "run-missing",
        "The launcher's log does not say that the program was started.",
        "Read the log; see whether it is whole.",
        primacy=ECHO,
        found_by="mpijob",
    ),
)
