/** Whether a pod fits a node of the cluster, and what prevents it. */
import type { V1Node, V1Pod, V1Taint, V1Toleration } from '@kubernetes/client-node'
import { sum } from 'simple-statistics'
import { type Api, ApiError } from '../api/api.ts'
import { parseQuantity } from '../api/quantity.ts'
import type { NodeRequirement } from '../gpus/gpu-selection.ts'
import type { Json } from '../manifests/manifests.ts'

type NodeFit =
  /** It would fit this node without other pods. */
  | { readonly kind: 'taken'; readonly node: string }
  /** A suitable node accepts no pods now, but may later. */
  | { readonly kind: 'closed'; readonly what: string }
  /** No node can hold it. */
  | {
      readonly kind: 'never'
      readonly what: string
      readonly hint?: string
      readonly noNodes?: true
    }

/** Limit of nodes whose pods are listed: each is a request. */
const maxInspectedNodes = 5

/** @param concurrentPods pods that run as long as this one */
export async function findNode(
  api: Api,
  pod: Json,
  concurrentPods: readonly V1Pod[],
  signal?: AbortSignal,
): Promise<NodeFit> {
  const { items } = await api.request<{ items: V1Node[] }>('GET', '/api/v1/nodes', { signal })
  const daemonPods: V1Pod[] = []
  const looked = new Set<string>()
  for (;;) {
    const fit = checkNodes(items, pod, concurrentPods, daemonPods)
    if (fit.kind !== 'taken' || looked.has(fit.node) || looked.size === maxInspectedNodes)
      return fit
    looked.add(fit.node)
    daemonPods.push(...(await listNodePods(api, fit.node, signal)))
  }
}

/**
 * Whether all nodes together offer less than pods request together.
 * @returns which resources are missing; undefined if the totals suffice
 */
export async function findMissingTotal(
  api: Api,
  pods: readonly Json[],
): Promise<string | undefined> {
  const { items } = await api.request<{ items: V1Node[] }>('GET', '/api/v1/nodes')
  if (items.length === 0) return undefined
  const missing = [...sumRequests({ containers: pods.flatMap(listContainers) })].flatMap(
    ([name, amount]) => {
      const total = sumAllocatable(items, name)
      return total < amount
        ? [`${name} ${formatAmount(name, amount)} (the nodes have ${formatAmount(name, total)})`]
        : []
    },
  )
  return missing.length === 0 ? undefined : `its pods together need ${missing.join(' and ')}`
}

const listContainers = ({ spec }: Json): PodRequests['containers'] =>
  (spec as PodRequests).containers

/** What all nodes of a cluster offer to pods: cores, or bytes of memory. */
export const sumAllocatable = (nodes: readonly V1Node[], resource: string): number =>
  sum(nodes.map((node) => getAllocatable(node, resource)))

/** DaemonSet and static pods of a node; empty if pods may not be read. */
async function listNodePods(api: Api, node: string, signal?: AbortSignal): Promise<V1Pod[]> {
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
 * Checks requests, node labels and taints; the scheduler alone checks volumes.
 * @param daemonPods DaemonSet and static pods of the nodes
 */
export function checkNodes(
  nodes: readonly V1Node[],
  pod: Json,
  concurrentPods: readonly V1Pod[] = [],
  daemonPods: readonly V1Pod[] = [],
): NodeFit {
  if (nodes.length === 0) return { kind: 'never', what: 'the cluster has no nodes', noNodes: true }
  const podRequests = sumRequests(pod.spec as PodRequests)
  const lacks = new Map<string, number>()
  let closed: string | undefined
  let untolerated: string | undefined
  for (const node of nodes) {
    const free = (resource: string) =>
      getAllocatable(node, resource) -
      sumRequestsOnNode(node, [...concurrentPods, ...daemonPods], resource)
    const missing = [
      ...[...podRequests]
        .filter(([name, amount]) => free(name) < amount)
        .map(([name, amount]) => `${name} ${formatAmount(name, amount)}`),
      ...listUnmetLabels(node, pod),
    ]
    for (const what of missing) lacks.set(what, (lacks.get(what) ?? 0) + 1)
    if (missing.length > 0) continue
    const { name } = node.metadata!
    const taints = listUntoleratedTaints(node, pod)
    const forOthers = taints.find((taint) => !isTemporaryTaint(taint))
    if (forOthers) untolerated ??= `node ${name} has the taint ${formatTaint(forOthers)}`
    else if (node.spec?.unschedulable)
      closed ??= `node ${name} is cordoned (kubectl uncordon ${name})`
    else if (taints[0]) closed ??= `node ${name} has the taint ${formatTaint(taints[0])}`
    else return { kind: 'taken', node: name! }
  }
  if (closed !== undefined) return { kind: 'closed', what: closed }
  if (untolerated !== undefined)
    return {
      kind: 'never',
      what: `${untolerated}, which the pod does not tolerate`,
      hint: 'add a toleration: kubernetes: {pod: {spec: {tolerations: [...]}}}',
    }
  // Report what every node lacks, if anything.
  const everywhere = [...lacks].filter(([, count]) => count === nodes.length).map(([what]) => what)
  const lackingResources = everywhere.length > 0 ? everywhere : [...lacks.keys()]
  const most = [...podRequests]
    .filter(([name, amount]) => lackingResources.includes(`${name} ${formatAmount(name, amount)}`))
    .map(([name]) => [name, Math.max(...nodes.map((node) => getAllocatable(node, name)))] as const)
    .filter(([, amount]) => amount > 0)
    .map(([name, amount]) => `${name} ${formatAmount(name, amount)}`)
  const largest = most.length > 0 ? ` (the largest has ${most.join(' and ')})` : ''
  const others = [
    ...(concurrentPods.length > 0 ? ['the other pods of its trial'] : []),
    ...(daemonPods.length > 0 ? ["the node's own pods"] : []),
  ]
  const own = others.length > 0 ? ` in addition to ${others.join(' and ')}` : ''
  return { kind: 'never', what: `no node has ${lackingResources.join(' and ')}${own}${largest}` }
}

const getAllocatable = ({ status }: V1Node, resource: string): number =>
  parseQuantity(status?.allocatable?.[resource] ?? '0')

const sumRequestsOnNode = (
  { metadata }: V1Node,
  pods: readonly V1Pod[],
  resource: string,
): number =>
  pods
    .filter(({ spec }) => spec?.nodeName === metadata?.name)
    .reduce((sum, { spec }) => sum + (sumRequests(spec as PodRequests).get(resource) ?? 0), 0)

interface PodRequests {
  readonly containers: readonly {
    readonly resources?: {
      readonly requests?: Readonly<Record<string, string>>
      readonly limits?: Readonly<Record<string, string>>
    }
  }[]
}

/** Sum of the requests of a pod's containers; limits count where there are no requests. */
function sumRequests({ containers }: PodRequests): Map<string, number> {
  const sums = new Map<string, number>()
  for (const { resources } of containers) {
    for (const [name, amount] of Object.entries({ ...resources?.limits, ...resources?.requests })) {
      sums.set(name, (sums.get(name) ?? 0) + parseQuantity(String(amount)))
    }
  }
  return sums
}

interface SchedulingFields {
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

function listUnmetLabels({ metadata }: V1Node, pod: Json): string[] {
  const { nodeSelector = {}, affinity } = pod.spec as SchedulingFields
  const labels = metadata?.labels ?? {}
  const bySelector = Object.entries(nodeSelector).filter(([key, value]) => labels[key] !== value)
  const terms =
    affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? []
  const byTerm = terms.map((term) =>
    (term.matchExpressions ?? []).filter((requirement) => !meetsRequirement(labels, requirement)),
  )
  const best = byTerm.some((missing) => missing.length === 0) ? [] : (byTerm[0] ?? [])
  return [
    ...bySelector.map(([key, value]) => `label ${key}=${value}`),
    ...best.map(({ key, values }) => `label ${key}${values ? ` in (${values.join(', ')})` : ''}`),
  ]
}

function meetsRequirement(
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
      return true // other operators appear in users' pods only: left to the scheduler
  }
}

function listUntoleratedTaints({ spec }: V1Node, pod: Json): V1Taint[] {
  const { tolerations = [] } = pod.spec as SchedulingFields
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

/**
 * Whether the cluster manages the taint itself: the node is being drained, added, removed, or is
 * unhealthy.
 */
const isTemporaryTaint = ({ key }: V1Taint): boolean =>
  /^(node\.kubernetes\.io|node\.cloudprovider\.kubernetes\.io|karpenter\.sh)\/|ClusterAutoscaler/.test(
    key,
  )

/** 'dedicated=gpu:NoSchedule', as kubectl prints it. */
export const formatTaint = ({ key, value, effect }: V1Taint): string =>
  `${key}${value ? `=${value}` : ''}:${effect}`

const formatAmount = (resource: string, amount: number): string =>
  /memory|storage/.test(resource)
    ? `${Number((amount / 2 ** 20).toPrecision(4))}Mi`
    : String(Number(amount.toPrecision(4)))
