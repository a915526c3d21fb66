/** Whether a pod could run on a node of the cluster, and what keeps it from it. */
import type { V1Node, V1Pod, V1Taint, V1Toleration } from '@kubernetes/client-node'
import { type Api, ApiError } from './api.ts'
import { quantity } from './failures.ts'
import type { NodeRequirement } from './gpu-selection.ts'
import type { Json } from './manifests.ts'

type Fit =
  /** It could run on that node if no other pod did. */
  | { readonly kind: 'taken'; readonly node: string }
  /** A node that could hold it takes no pods now, and may again. */
  | { readonly kind: 'closed'; readonly what: string }
  /** As the nodes are, none can hold it. */
  | {
      readonly kind: 'never'
      readonly what: string
      readonly hint?: string
      readonly noNodes?: true
    }

/** Of how many nodes the pods are looked at: each is a request. */
const maxNodesLookedInto = 5

/** @param beside pods that run as long as it does: what they hold it never gets */
export async function findNode(
  api: Api,
  pod: Json,
  beside: readonly V1Pod[],
  signal?: AbortSignal,
): Promise<Fit> {
  const { items } = await api.request<{ items: V1Node[] }>('GET', '/api/v1/nodes', { signal })
  const lasting: V1Pod[] = []
  const looked = new Set<string>()
  for (;;) {
    const fit = fitAmong(items, pod, beside, lasting)
    if (fit.kind !== 'taken' || looked.has(fit.node) || looked.size === maxNodesLookedInto)
      return fit
    looked.add(fit.node)
    lasting.push(...(await podsOfNodeItself(api, fit.node, signal)))
  }
}

/** Pods that a node runs whatever else it does; none where they may not be seen. */
async function podsOfNodeItself(api: Api, node: string, signal?: AbortSignal): Promise<V1Pod[]> {
  const query = { fieldSelector: `spec.nodeName=${node}` }
  const { items } = await api
    .request<{ items: V1Pod[] }>('GET', '/api/v1/pods', { query, signal })
    .catch((error: unknown) => {
      if (error instanceof ApiError) return { items: [] }
      throw error
    })
  return items.filter(
    ({ metadata, spec }) =>
      spec?.nodeName === node &&
      metadata?.ownerReferences?.some(({ kind }) => kind === 'DaemonSet' || kind === 'Node'),
  )
}

/**
 * Looks at sums of requests, node labels and taints; volumes are the scheduler's to judge.
 * @param lasting pods that their nodes run whatever else they do
 */
export function fitAmong(
  nodes: readonly V1Node[],
  pod: Json,
  beside: readonly V1Pod[] = [],
  lasting: readonly V1Pod[] = [],
): Fit {
  if (nodes.length === 0) return { kind: 'never', what: 'the cluster has no nodes', noNodes: true }
  const wanted = requestsOf(pod.spec as PodRequests)
  const lacks = new Map<string, number>()
  let closed: string | undefined
  let untolerated: string | undefined
  for (const node of nodes) {
    const free = (resource: string) =>
      allocatable(node, resource) - heldOn(node, [...beside, ...lasting], resource)
    const missing = [
      ...[...wanted]
        .filter(([name, amount]) => free(name) < amount)
        .map(([name, amount]) => `${name} ${shown(name, amount)}`),
      ...unmet(node, pod),
    ]
    for (const what of missing) lacks.set(what, (lacks.get(what) ?? 0) + 1)
    if (missing.length > 0) continue
    const { name } = node.metadata!
    const taints = untoleratedTaints(node, pod)
    const forOthers = taints.find((taint) => !passes(taint))
    if (forOthers) untolerated ??= `node ${name} has the taint ${taintText(forOthers)}`
    else if (node.spec?.unschedulable)
      closed ??= `node ${name} is cordoned (kubectl uncordon ${name})`
    else if (taints[0]) closed ??= `node ${name} has the taint ${taintText(taints[0])}`
    else return { kind: 'taken', node: name! }
  }
  if (closed !== undefined) return { kind: 'closed', what: closed }
  if (untolerated !== undefined)
    return {
      kind: 'never',
      what: `${untolerated}, which the pod does not tolerate`,
      hint: 'add a toleration: kubernetes: {pod: {spec: {tolerations: [...]}}}',
    }
  // What every node lacks says most.
  const everywhere = [...lacks].filter(([, count]) => count === nodes.length).map(([what]) => what)
  const named = everywhere.length > 0 ? everywhere : [...lacks.keys()]
  const most = [...wanted]
    .filter(([name, amount]) => named.includes(`${name} ${shown(name, amount)}`))
    .map(([name]) => [name, Math.max(...nodes.map((node) => allocatable(node, name)))] as const)
    .filter(([, amount]) => amount > 0)
    .map(([name, amount]) => `${name} ${shown(name, amount)}`)
  const largest = most.length > 0 ? ` (the largest has ${most.join(' and ')})` : ''
  const others = [
    ...(beside.length > 0 ? ['its own predictor'] : []),
    ...(lasting.length > 0 ? ["the node's own pods"] : []),
  ]
  const own = others.length > 0 ? ` in addition to ${others.join(' and ')}` : ''
  return { kind: 'never', what: `no node has ${named.join(' and ')}${own}${largest}` }
}

const allocatable = ({ status }: V1Node, resource: string): number =>
  quantity(status?.allocatable?.[resource] ?? '0')

const heldOn = ({ metadata }: V1Node, pods: readonly V1Pod[], resource: string): number =>
  pods
    .filter(({ spec }) => spec?.nodeName === metadata?.name)
    .reduce((sum, { spec }) => sum + (requestsOf(spec as PodRequests).get(resource) ?? 0), 0)

interface PodRequests {
  readonly containers: readonly {
    readonly resources?: {
      readonly requests?: Readonly<Record<string, string>>
      readonly limits?: Readonly<Record<string, string>>
    }
  }[]
}

/** What a pod's containers request together, or are limited to where they request nothing. */
function requestsOf({ containers }: PodRequests): Map<string, number> {
  const sums = new Map<string, number>()
  for (const { resources } of containers) {
    for (const [name, amount] of Object.entries({ ...resources?.limits, ...resources?.requests })) {
      sums.set(name, (sums.get(name) ?? 0) + quantity(String(amount)))
    }
  }
  return sums
}

interface Scheduling {
  readonly nodeSelector?: Record<string, string>
  readonly tolerations?: readonly V1Toleration[]
  readonly affinity?: {
    readonly nodeAffinity?: {
      readonly requiredDuringSchedulingIgnoredDuringExecution?: {
        readonly nodeSelectorTerms?: { matchExpressions?: NodeRequirement[] }[]
      }
    }
  }
}

function unmet({ metadata }: V1Node, pod: Json): string[] {
  const { nodeSelector = {}, affinity } = pod.spec as Scheduling
  const labels = metadata?.labels ?? {}
  const bySelector = Object.entries(nodeSelector).filter(([key, value]) => labels[key] !== value)
  const terms =
    affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? []
  const byTerm = terms.map((term) =>
    (term.matchExpressions ?? []).filter((requirement) => !meets(labels, requirement)),
  )
  const best = byTerm.some((missing) => missing.length === 0) ? [] : (byTerm[0] ?? [])
  return [
    ...bySelector.map(([key, value]) => `label ${key}=${value}`),
    ...best.map(({ key, values }) => `label ${key}${values ? ` in (${values.join(', ')})` : ''}`),
  ]
}

function meets(
  labels: Readonly<Record<string, string>>,
  { key, operator, values = [] }: NodeRequirement,
): boolean {
  const value = labels[key]
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value)
    case 'Exists':
      return value !== undefined
    default:
      return true // the user's own, of a kind that is not used here
  }
}

function untoleratedTaints({ spec }: V1Node, pod: Json): V1Taint[] {
  const { tolerations = [] } = pod.spec as Scheduling
  return (spec?.taints ?? []).filter(
    (taint) =>
      (taint.effect === 'NoSchedule' || taint.effect === 'NoExecute') &&
      !tolerations.some((toleration) => tolerates(toleration, taint)),
  )
}

const tolerates = (
  { key, operator = 'Equal', value = '', effect }: V1Toleration,
  taint: V1Taint,
): boolean =>
  (!effect || effect === taint.effect) &&
  (!key ? operator === 'Exists' : key === taint.key) &&
  (operator === 'Exists' || value === (taint.value ?? ''))

/** Set and taken away by the cluster itself: the node is being drained, added, removed or sick. */
const passes = ({ key }: V1Taint): boolean =>
  /^(node\.kubernetes\.io|node\.cloudprovider\.kubernetes\.io|karpenter\.sh)\/|ClusterAutoscaler/.test(
    key,
  )

/** 'dedicated=gpu:NoSchedule', as kubectl writes it. */
export const taintText = ({ key, value, effect }: V1Taint): string =>
  `${key}${value ? `=${value}` : ''}:${effect}`

const shown = (resource: string, amount: number): string =>
  /memory|storage/.test(resource)
    ? `${Number((amount / 2 ** 20).toPrecision(4))}Mi`
    : String(Number(amount.toPrecision(4)))
