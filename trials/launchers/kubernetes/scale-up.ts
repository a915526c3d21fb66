/**
 * Whether a cluster is adding a node for a pod, by the events of its autoscaler, the NodeClaims of
 * Karpenter, and the status of its node groups.
 */
import type { CoreV1Event, V1ConfigMap } from '@kubernetes/client-node'
import { parse, YAMLError } from 'yaml'
import { type Api, ApiError } from './api.ts'

interface ScaleUp {
  readonly grows: boolean
  /** The last event of the autoscaler about the pod. */
  readonly said?: string
}

interface NodeClaim {
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string
      readonly status: string
      readonly reason?: string
      readonly message?: string
    }[]
  }
}

/**
 * Events of the cluster autoscaler (GKE's node auto-provisioning and AKS's among them) and of
 * Karpenter.
 */
const adds: ReadonlySet<string> = new Set(['TriggeredScaleUp', 'Nominated'])
const addsNone: ReadonlySet<string> = new Set(['NotTriggerScaleUp', 'FailedScaleUp'])

/** @param events about the pod */
export async function scaleUpSaid(
  api: Api,
  events: readonly CoreV1Event[],
  signal: AbortSignal,
): Promise<ScaleUp> {
  const last = events
    .filter(
      (event) =>
        adds.has(event.reason ?? '') ||
        addsNone.has(event.reason ?? '') ||
        refusedByKarpenter(event),
    )
    .sort((a, b) => timeOf(a) - timeOf(b))
    .at(-1)
  if (last === undefined) return { grows: false }
  const said = `${last.reason}: ${last.message ?? ''}`.trim()
  if (!adds.has(last.reason ?? '')) return { grows: false, said }
  const claim = /nodeclaim\/([a-z0-9.-]+)/.exec(last.message ?? '')?.[1]
  const lost = await (claim === undefined
    ? groupLost(api, last.message ?? '', signal)
    : nodeClaimLost(api, claim, signal))
  return lost === undefined ? { grows: true, said } : { grows: false, said: `${said}; ${lost}` }
}

/**
 * Whether something may add nodes to the cluster: Karpenter, or a cluster autoscaler that publishes
 * its status. True where the tuner may not see that.
 */
export async function mayAddNodes(api: Api, signal: AbortSignal): Promise<boolean> {
  const exists = (path: string) =>
    api.request('GET', path, { signal, once: true }).then(
      () => true,
      (error: unknown) => {
        if (error instanceof ApiError) return error.status !== 404
        throw error
      },
    )
  return (await exists('/apis/karpenter.sh')) || (await exists(statusMap))
}

/** Karpenter uses the scheduler's reason for a pod that it cannot create a node for. */
const refusedByKarpenter = ({ reason, reportingComponent, source }: CoreV1Event): boolean =>
  reason === 'FailedScheduling' &&
  (reportingComponent === 'karpenter' || source?.component === 'karpenter')

const timeOf = ({ lastTimestamp, eventTime, firstTimestamp, metadata }: CoreV1Event): number =>
  new Date(
    lastTimestamp ?? eventTime ?? firstTimestamp ?? metadata?.creationTimestamp ?? 0,
  ).getTime()

/**
 * Why a requested node will not come. Undefined: it may come, or the tuner may not see NodeClaims,
 * which are cluster-scoped.
 */
async function nodeClaimLost(
  api: Api,
  name: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const { status } = await api.request<NodeClaim>(
      'GET',
      `/apis/karpenter.sh/v1/nodeclaims/${name}`,
      { signal, once: true },
    )
    const launched = status?.conditions?.find(({ type }) => type === 'Launched')
    // Not tried yet.
    if (launched?.status !== 'False') return undefined
    return `nodeclaim ${name}: ${launched.reason ?? 'not launched'}${launched.message ? `: ${launched.message}` : ''}`
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return error.status === 404
      ? `nodeclaim ${name} is gone: its node could not be made`
      : undefined
  }
}

/**
 * As the cluster autoscaler publishes it since 1.30, on GKE with its node auto-provisioning too.
 */
interface AutoscalerStatus {
  readonly nodeGroups?: readonly {
    readonly name?: string
    readonly scaleUp?: {
      readonly status?: string
      readonly backoffInfo?: { readonly errorCode?: string; readonly errorMessage?: string }
    }
  }[]
}

const statusMap = '/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status'

/**
 * Why a node group does not grow: no quota, no capacity at the provider. Undefined: it may grow, or
 * the tuner may not see its status.
 * @param said 'pod triggered scale-up: [{GROUP 0->1 (max: 4)}]'
 */
async function groupLost(api: Api, said: string, signal: AbortSignal): Promise<string | undefined> {
  try {
    const { data } = await api.request<V1ConfigMap>('GET', statusMap, { signal, once: true })
    const { nodeGroups } = (parse(data?.status ?? '') ?? {}) as AutoscalerStatus
    const group = nodeGroups?.find(
      ({ name, scaleUp }) =>
        name !== undefined && said.includes(name) && scaleUp?.status === 'Backoff',
    )
    if (group === undefined) return undefined
    const { errorCode = 'its last attempt failed', errorMessage } = group.scaleUp?.backoffInfo ?? {}
    return `node group ${group.name}: ${errorCode}${errorMessage ? `: ${errorMessage}` : ''}`
  } catch (error) {
    // Older autoscalers publish prose.
    if (error instanceof ApiError || error instanceof YAMLError) return undefined
    throw error
  }
}
