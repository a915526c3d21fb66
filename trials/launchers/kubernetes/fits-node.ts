/** Whether a pod could run on a node of the cluster if nothing else did. */
import type { V1Node } from '@kubernetes/client-node'
import type { Api } from './api.ts'
import { quantity } from './failures.ts'
import type { NodeRequirement } from './gpu-selection.ts'
import type { Json } from './manifests.ts'

type Fit =
  | { readonly fits: true; readonly node: string }
  | { readonly fits: false; readonly lacks: readonly string[] }

export async function fitOf(api: Api, pod: Json, signal?: AbortSignal): Promise<Fit> {
  const { items } = await api.request<{ items: V1Node[] }>('GET', '/api/v1/nodes', { signal })
  return fitAmong(items, pod)
}

/**
 * Looks at sums of requests, node selectors and required node affinity; taints and volumes are the
 * scheduler's to judge.
 */
export function fitAmong(nodes: readonly V1Node[], pod: Json): Fit {
  const wanted = requestsOf(pod)
  const lacks = new Map<string, number>()
  for (const node of nodes) {
    const missing = [
      ...[...wanted]
        .filter(([name, amount]) => quantity(node.status?.allocatable?.[name] ?? '0') < amount)
        .map(([name, amount]) => `${name} ${shown(amount)}`),
      ...unmet(node, pod),
    ]
    if (missing.length === 0) return { fits: true, node: node.metadata!.name! }
    for (const what of missing) lacks.set(what, (lacks.get(what) ?? 0) + 1)
  }
  // What every node lacks says most.
  const everywhere = [...lacks].filter(([, count]) => count === nodes.length).map(([what]) => what)
  return { fits: false, lacks: everywhere.length > 0 ? everywhere : [...lacks.keys()] }
}

function requestsOf(pod: Json): Map<string, number> {
  const { containers } = pod.spec as {
    containers: {
      resources?: { requests?: Record<string, string>; limits?: Record<string, string> }
    }[]
  }
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

const shown = (amount: number): string =>
  amount >= 2 ** 20 ? `${Math.round(amount / 2 ** 20)}Mi` : String(amount)
