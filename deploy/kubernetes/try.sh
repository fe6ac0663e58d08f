#!/usr/bin/env bash
# Runs the chart on a real Kubernetes API server with its real controllers and
# scheduler, all built from their modules, on nodes that exist on paper only: no
# kubelet, no container. Not part of CI: the first build takes ten minutes and
# gigabytes of cache on two cores, the trial itself three. Ends what it started.
#
# It proves that the API server admits what the chart renders, that the
# scheduler puts one agent on a node and leaves the rest Pending with a reason,
# that pods are Guaranteed, that a new revision replaces the Job, and that the
# deadline ends it. What it does not prove stands at its end.
set -euo pipefail
cd "$(dirname "$0")"

tools=$(../tools.sh)
work=$(mktemp -d)
pids=()
# shellcheck disable=SC2317 # called by the trap
finish() {
	local code=$?
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
	wait
	if [ "$code" -eq 0 ]; then
		rm -rf "$work"
	else
		echo "try.sh: failed; the logs are in $work" >&2
	fi
}
trap finish EXIT
trap 'exit 130' INT TERM

echo "building (the first time takes minutes)" >&2
bin=${CEILING_TRY_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/ceiling-deploy/kubernetes-$(cat try/go.mod try/go.sum | sha256sum | cut -c1-16)}
if [ ! -e "$bin/server" ]; then
	release=$(cd try && go list -m -f '{{.Version}}' k8s.io/kubernetes)
	version="-X k8s.io/component-base/version.gitVersion=$release"
	mkdir -p "$bin"
	for command in k8s.io/kubernetes/cmd/kube-{apiserver,controller-manager,scheduler} go.etcd.io/etcd/server/v3; do
		name=${command##*/}
		[ "$name" = v3 ] && name=server
		(cd try && CGO_ENABLED=0 nice go build -p 1 -trimpath -ldflags "-s -w $version" -o "$bin/$name" "$command")
	done
fi

# start NAME COMMAND…: in the background, said to a log.
start() {
	local name=$1
	shift
	"$@" >"$work/$name.log" 2>&1 &
	pids+=($!)
}

# eventually WHAT COMMAND…: within two minutes, or it fails.
eventually() {
	local what=$1 end=$((SECONDS + 120))
	shift
	until "$@" >/dev/null 2>&1; do
		if [ $SECONDS -ge $end ]; then
			echo "try.sh: not within two minutes: $what" >&2
			k get pods,jobs -A -o wide >&2 || true
			exit 1
		fi
		sleep 0.5
	done
	echo "ok  $what"
}

k() { "$tools/kubectl" --kubeconfig "$work/kubeconfig" "$@"; }
h() { HELM_CACHE_HOME=$work/helm HELM_CONFIG_HOME=$work/helm HELM_DATA_HOME=$work/helm "$tools/helm" --kubeconfig "$work/kubeconfig" "$@"; }

port=$((20000 + RANDOM % 10000))
etcd=http://127.0.0.1:$port peer=http://127.0.0.1:$((port + 1)) api=$((port + 2))
ssh-keygen -q -t rsa -b 2048 -m PEM -N '' -f "$work/accounts"
echo "all,admin,admin,system:masters" >"$work/tokens"
cat >"$work/kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: try, cluster: {server: "https://127.0.0.1:$api", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: all}}]
contexts: [{name: try, context: {cluster: try, user: admin}}]
current-context: try
END
start etcd "$bin/server" --data-dir "$work/etcd" --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
	--listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer" --unsafe-no-fsync
# No TaintNodesByCondition: nobody is there to take the taint off paper nodes.
start apiserver "$bin/kube-apiserver" --etcd-servers "$etcd" --bind-address 127.0.0.1 --secure-port "$api" \
	--cert-dir "$work/certs" --token-auth-file "$work/tokens" --authorization-mode RBAC \
	--service-account-issuer https://try --service-account-key-file "$work/accounts" --service-account-signing-key-file "$work/accounts" \
	--service-cluster-ip-range 10.96.0.0/16 --disable-admission-plugins TaintNodesByCondition
eventually "the API server is ready" k get --raw /readyz
start controllers "$bin/kube-controller-manager" --kubeconfig "$work/kubeconfig" --leader-elect=false --secure-port 0 \
	--controllers serviceaccount-controller,job-controller,deployment-controller,replicaset-controller,daemonset-controller,garbage-collector-controller,namespace-controller,ttl-after-finished-controller
start scheduler "$bin/kube-scheduler" --kubeconfig "$work/kubeconfig" --leader-elect=false --secure-port 0
echo "    $(k version -o json | python3 -c 'import json,sys; print(json.load(sys.stdin)["serverVersion"]["gitVersion"])'), $(h version --short)"

node() { # node NAME ROLE
	k create -f - >/dev/null <<END
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "$1", "labels": {"role": "$2", "kubernetes.io/hostname": "$1"}}}
END
	k patch node "$1" --subresource=status --type=merge -p '{"status": {
		"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}, "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
		"conditions": [{"type": "Ready", "status": "True", "reason": "OnPaper"}]}}' >/dev/null
}
for n in 1 2 3 4; do node "load-$n" load; done
node web-1 server
node web-2 server
k create namespace lab >/dev/null
eventually "the namespace has its service account" k -n lab get serviceaccount default
k -n lab create secret generic ceiling-token --from-literal=token=TOKEN >/dev/null

set=(--set image=registry.example/ceiling:1 --set controller.enabled=true --set controller.nodeSelector.role=server
	--set token.existingSecret=ceiling-token --set 'agents.allow={10.0.0.0/24}' --set agents.nodeSelector.role=load
	--set observers.enabled=true --set observers.nodeSelector.role=server)
h install c chart -n lab "${set[@]}" --set agents.count=5 >/dev/null
echo "ok  the API server admits what the chart renders"

agents=app.kubernetes.io/component=agent
nodes_of() { k -n lab get pods -l "$1" -o 'jsonpath={range .items[*]}{.spec.nodeName}{"\n"}{end}' | grep -v '^$' | sort; }
four() { [ "$(nodes_of $agents | tr '\n' ' ')" = "load-1 load-2 load-3 load-4 " ]; }
eventually "of five agents four are placed, one on each of four nodes" four
waits() { k -n lab get pods -l $agents --field-selector spec.nodeName= -o jsonpath='{.items[*].status.conditions[*].message}' | grep "didn't match pod anti-affinity rules"; }
eventually "the fifth waits, and Kubernetes says why" waits
watched() { [ "$(nodes_of app.kubernetes.io/component=observer | tr '\n' ' ')" = "web-1 web-2 " ]; }
eventually "observers are on the servers' nodes, and only there" watched
guaranteed() { [ "$(k -n lab get pods -o jsonpath='{.items[*].status.qosClass}' | tr ' ' '\n' | sort | uniq -c | xargs)" = "8 Guaranteed" ]; }
eventually "all eight pods are Guaranteed" guaranteed
indices() { [ "$(k -n lab get pods -l $agents -o 'jsonpath={range .items[*]}{.metadata.annotations.batch\.kubernetes\.io/job-completion-index}{"\n"}{end}' | sort | xargs)" = "0 1 2 3 4" ]; }
eventually "every agent has its index, which is its name" indices

h upgrade c chart -n lab "${set[@]}" --set agents.count=2 --set agents.activeDeadlineSeconds=60 >/dev/null
# Pods that have a node are taken away by its kubelet, and there is none.
k -n lab delete pods -l "$agents,batch.kubernetes.io/job-name=c-ceiling-agents-1" --force --grace-period=0 >/dev/null 2>&1
replaced() { [ "$(k -n lab get jobs -o name)" = job.batch/c-ceiling-agents-2 ] && [ "$(nodes_of $agents | wc -l)" = 2 ]; }
eventually "a new revision replaces the Job and its agents" replaced
ended() { [ "$(k -n lab get job c-ceiling-agents-2 -o jsonpath='{.status.conditions[?(@.type=="FailureTarget")].reason}')" = DeadlineExceeded ]; }
eventually "the deadline of 60 s ends the Job" ended
leaving() { [ "$(k -n lab get pods -l $agents -o jsonpath='{.items[*].metadata.deletionTimestamp}' | wc -w)" = 2 ]; }
eventually "and its agents are told to end" leaving
h uninstall c -n lab >/dev/null
gone() { ! k -n lab get jobs,deployments,daemonsets,services,secrets -o name | grep -qv secret/ceiling-token; }
eventually "helm uninstall leaves nothing but the operator's own secret" gone

cat <<'END'
not proved: that a container starts, joins or measures, since nothing ran: no
kubelet, no runtime, no network between pods; that sysctls, seccomp and
capabilities do in a pod what they say; that a static CPU manager gives the
agents CPUs of their own.
END
