/**
 * Models that share a slice as their requests come, handed over: llama-swap
 * (github.com/mostlygeek/llama-swap) before their Deployments. It holds requests, brings up the one
 * Deployment that they are for, and puts away who has to leave for it once nobody asks for that: a
 * group with `swap: true`, or where several are in memory together, its matrix of those that fit
 * (docs/kb/guides/routing/groups-and-matrix.md). Keys of its configuration are those of its
 * config-schema.json; its image has a shell and curl, by which a script scales Deployments through
 * the cluster's API. Pods of models that are in memory together have one claim on their GPU, by
 * dynamic resource allocation.
 */
import { sharedClaim } from '../../trials/launchers/kubernetes/dra.ts'
import { type Manifest, yamlOf } from '../specs/manifest.ts'
import { specGpus } from '../specs/pod-gpus.ts'
import type { Serving } from '../specs/serving.ts'
import type { Together } from './packing.ts'
import { handOverS } from './turning.ts'

/** A model of the set. */
interface Swapped {
  /** Of its Deployment and its Service. */
  readonly name: string
  readonly model: string
  readonly readyPath: string
  /** Until it serves. */
  readonly loadS: number
  /** Seconds that a pod of it has to end. */
  readonly graceS: number
  /** Requests that may be under way at once, those that wait counted. */
  readonly mostRequests: number
}

interface SwapSet {
  /** Of the proxy. */
  readonly name: string
  /** 'a T4' */
  readonly on: string
  readonly members: readonly Swapped[]
  /** Absent: one of them is in memory at a time. */
  readonly shared?: {
    /** By the names of models. */
    readonly together: Together
    /** Any of them: they stand on the same GPU or slice. */
    readonly serving: Serving
  }
}

/**
 * What brings them up and puts them away, unless all of them stay, and the claim on the GPU that
 * several of them have together.
 */
export function turnsYaml(set: SwapSet): string {
  const parts = [
    ...(isStaying(set.shared?.together, set.members) ? [] : [swapProxyYaml(set)]),
    ...(set.shared ? [sharedClaimYaml(set)] : []),
  ]
  return parts.join('---\n')
}

/** Whether none of the models of a set ever leaves. */
export const isStaying = (together: Together | undefined, members: readonly object[]): boolean =>
  together?.most === members.length

const image = 'ghcr.io/mostlygeek/llama-swap:cpu'
const folder = '/etc/llama-swap'
const port = 8080

/** A proxy's objects as YAML, under a header that says how it is asked and what it rests on. */
function swapProxyYaml({ name, on, members, shared }: SwapSet): string {
  const together = shared?.together
  const labels = { 'app.kubernetes.io/name': name }
  const account = { kind: 'ServiceAccount', name }
  const objects: Manifest[] = [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name } },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'Role',
      metadata: { name },
      rules: [
        {
          apiGroups: ['apps'],
          resources: ['deployments/scale'],
          resourceNames: members.map((of) => of.name),
          verbs: ['get', 'patch'],
        },
        { apiGroups: [''], resources: ['pods'], verbs: ['list'] },
      ],
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [account],
    },
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name },
      data: { 'config.yaml': yamlOf(configurationOf(name, members, together)), 'swap.sh': script },
    },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name, labels },
      spec: {
        // Two of them would each bring up another.
        replicas: 1,
        strategy: { type: 'Recreate' },
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            serviceAccountName: name,
            containers: [
              {
                name: 'llama-swap',
                image,
                command: ['sh', `${folder}/swap.sh`, 'serve', ...members.map((of) => of.name)],
                ports: [{ name: 'http', containerPort: port }],
                readinessProbe: { httpGet: { path: '/health', port: 'http' } },
                volumeMounts: [{ name: 'configuration', mountPath: folder }],
              },
            ],
            volumes: [{ name: 'configuration', configMap: { name } }],
          },
        },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, labels },
      spec: { selector: labels, ports: [{ name: 'http', port: 80, targetPort: 'http' }] },
    },
  ]
  const notes = [
    `${members.map(({ model }) => model).join(', ')} in turns on ${on}: llama-swap holds their requests and has ${together ? `${together.most} of them in memory at the most, those that fit` : 'one of them in memory'}, in the order in which they come.`,
    ...(together ? [`Who leaves first: ${together.leaving.join(', ')}.`] : []),
    `Requests go to it, not to the Services of the models: http://${name}/upstream/MODEL/PATH, or OpenAI's paths with "model" in the body.`,
    ...members.map((of) => `  ${of.model} is ${of.name}: http://${name}/upstream/${of.name}/`),
    `The plan played a load of ${members.map(({ model, loadS }) => `${loadS} s (${model})`).join(', ')}. A pod that ends, the place of the next and its image come on top: where that is not in it, say the whole as load: in the fleet file and plan again.`,
    'Apply the Deployments of the models once, before this: applied again they are put away, and this is to be restarted.',
    'Assumed, not measured: nobody has tried this with a load here.',
  ]
  return `${notes.map((note) => `# ${note}\n`).join('')}${objects.map(yamlOf).join('---\n')}`
}

/** The claim that pods of models which are in memory together name. */
function sharedClaimYaml({ name, on, members, shared }: SwapSet): string {
  const { together, serving } = shared!
  const { claim, needs } = specGpus(serving.resources, 'dra', serving.dra)
  const staying = isStaying(together, members)
    ? ', all in memory: each is asked at its own Service'
    : ''
  const notes = [
    `${members.map(({ model }) => model).join(', ')} on ${on}${staying}.`,
    'Their pods have this one claim: the driver gives them the same GPU, which gives its time to all of them in slices. Nothing else may claim it.',
    'Nothing holds a pod to its part of the memory but its server: each was planned with what its table or its trials tell.',
    ...needs.map((need) => `needs: ${need}; its node gives GPUs by that alone`),
    'Assumed, not measured: nobody has tried this with a GPU here.',
  ]
  return `${notes.map((note) => `# ${note}\n`).join('')}${yamlOf(sharedClaim(claim!, { name }))}`
}

/**
 * Costs of leaving: so far apart that what llama-swap multiplies them by, the time that it saw a
 * load take, changes no order.
 */
const dearer = 1000

const routerOf = (
  name: string,
  members: readonly Swapped[],
  together: Together | undefined,
): Manifest => {
  if (together === undefined)
    return {
      use: 'group',
      settings: { groups: { [name]: { swap: true, members: members.map((of) => of.name) } } },
    }
  const variable = (model: string) => `m${members.findIndex((of) => of.model === model) + 1}`
  return {
    use: 'matrix',
    settings: {
      matrix: {
        vars: Object.fromEntries(members.map((of) => [variable(of.model), of.name])),
        evict_costs: Object.fromEntries(
          together.leaving.map((model, i) => [variable(model), dearer ** i]),
        ),
        sets: Object.fromEntries(
          together.sets.map((set, i) => [`fit${i + 1}`, set.map(variable).join(' & ')]),
        ),
      },
    },
  }
}

const configurationOf = (
  name: string,
  members: readonly Swapped[],
  together: Together | undefined,
): Manifest => ({
  healthCheckTimeout: Math.ceil(2 * Math.max(...members.map(({ loadS }) => loadS)) + handOverS),
  unloadTimeout: Math.max(...members.map(({ graceS }) => graceS)) + handOverS,
  models: Object.fromEntries(
    members.map(({ name: own, model, readyPath, mostRequests }) => [
      own,
      {
        cmd: `sh ${folder}/swap.sh start ${own}`,
        cmdStop: `sh ${folder}/swap.sh stop ${own} \${PID}`,
        proxy: `http://${own}`,
        checkEndpoint: readyPath,
        concurrencyLimit: mostRequests,
        ...(model !== own && { aliases: [model] }),
      },
    ]),
  ),
  routing: { router: routerOf(name, members, together) },
})

/** `${PID}` of a model that is stopped is of its `start`. */
const script = `#!/bin/sh
# serve NAME...: llama-swap, begun with none of these Deployments up. start NAME: one pod of it, for as long as this runs.
# stop NAME PID: none; once the pod has gone, and what it held of the GPU, its start is ended.
set -eu
account=/var/run/secrets/kubernetes.io/serviceaccount
api=https://kubernetes.default.svc
namespace=$(cat "$account/namespace")
call() {
  curl --silent --show-error --fail --cacert "$account/ca.crt" --header "Authorization: Bearer $(cat "$account/token")" "$@"
}
scale() {
  call --request PATCH --header 'Content-Type: application/merge-patch+json' --data "{\\"spec\\":{\\"replicas\\":$2}}" \\
    --output /dev/null "$api/apis/apps/v1/namespaces/$namespace/deployments/$1/scale"
}
gone() {
  call "$api/api/v1/namespaces/$namespace/pods?labelSelector=app.kubernetes.io%2Fname%3D$1" | tr -d ' \\n' | grep -q '"items":\\[\\]'
}
action=$1
shift
case $action in
serve)
  for name in "$@"; do scale "$name" 0; done
  exec /app/llama-swap -config ${folder}/config.yaml -listen :${port}
  ;;
start)
  scale "$1" 1
  exec tail -f /dev/null
  ;;
stop)
  scale "$1" 0
  until gone "$1"; do sleep 1; done
  kill "$2"
  ;;
esac
`
