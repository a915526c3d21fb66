/**
 * Whether a cluster is adding a node for a pod, by the events of its autoscaler, the NodeClaims of
 * Karpenter, and the status of its node groups.
 */
import type { CoreV1Event, V1ConfigMap } from '@kubernetes/client-node'
import { parse, YAMLError } from 'yaml'
import { type Api, ApiError } from '../api/api.ts'

interface ScaleUp {
  readonly isScalingUp: boolean
  /** Message of the autoscaler's last event about the pod. */
  readonly message?: string
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
const scaleUpReasons: ReadonlySet<string> = new Set(['TriggeredScaleUp', 'Nominated'])
const refusedScaleUpReasons: ReadonlySet<string> = new Set(['NotTriggerScaleUp', 'FailedScaleUp'])

/** @param events about the pod */
export async function findScaleUp(
  api: Api,
  events: readonly CoreV1Event[],
  signal: AbortSignal,
): Promise<ScaleUp> {
  const last = events
    .filter(
      (event) =>
        scaleUpReasons.has(event.reason ?? '') ||
        refusedScaleUpReasons.has(event.reason ?? '') ||
        isKarpenterRefusal(event),
    )
    .sort((a, b) => getEventTime(a) - getEventTime(b))
    .at(-1)
  if (last === undefined) return { isScalingUp: false }
  const message = `${last.reason}: ${last.message ?? ''}`.trim()
  if (!scaleUpReasons.has(last.reason ?? '')) return { isScalingUp: false, message }
  const claim = /nodeclaim\/([a-z0-9.-]+)/.exec(last.message ?? '')?.[1]
  const lost = await (claim === undefined
    ? explainNodeGroupFailure(api, last.message ?? '', signal)
    : explainNodeClaimFailure(api, claim, signal))
  return lost === undefined
    ? { isScalingUp: true, message }
    : { isScalingUp: false, message: `${message}; ${lost}` }
}

/**
 * Whether something may add nodes to the cluster: Karpenter, or a cluster autoscaler that publishes
 * its status. True if the tuner lacks the permission to tell.
 */
export async function canAddNodes(api: Api, signal: AbortSignal): Promise<boolean> {
  const exists = (path: string) =>
    api.request('GET', path, { signal, once: true }).then(
      () => true,
      (error: unknown) => {
        if (error instanceof ApiError) return error.status !== 404
        throw error
      },
    )
  return (await exists('/apis/karpenter.sh')) || (await exists(statusConfigMapPath))
}

/** Karpenter uses the scheduler's reason for a pod that it cannot create a node for. */
const isKarpenterRefusal = ({ reason, reportingComponent, source }: CoreV1Event): boolean =>
  reason === 'FailedScheduling' &&
  (reportingComponent === 'karpenter' || source?.component === 'karpenter')

const getEventTime = ({
  lastTimestamp,
  eventTime,
  firstTimestamp,
  metadata,
}: CoreV1Event): number =>
  new Date(
    lastTimestamp ?? eventTime ?? firstTimestamp ?? metadata?.creationTimestamp ?? 0,
  ).getTime()

/**
 * Why a requested node will not be added. Undefined if it may, or if the tuner may not read
 * NodeClaims, which are cluster-scoped.
 */
async function explainNodeClaimFailure(
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
    // Not attempted yet.
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
 * Status that the cluster autoscaler publishes since 1.30, and GKE with node auto-provisioning.
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

const statusConfigMapPath = '/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status'

/**
 * Why a node group does not grow: no quota, or no capacity at the provider. Undefined if it may
 * grow, or if its status may not be read.
 * @param message 'pod triggered scale-up: [{GROUP 0->1 (max: 4)}]'
 */
async function explainNodeGroupFailure(
  api: Api,
  message: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const { data } = await api.request<V1ConfigMap>('GET', statusConfigMapPath, {
      signal,
      once: true,
    })
    const { nodeGroups } = (parse(data?.status ?? '') ?? {}) as AutoscalerStatus
    const group = nodeGroups?.find(
      ({ name, scaleUp }) =>
        name !== undefined && message.includes(name) && scaleUp?.status === 'Backoff',
    )
    if (group === undefined) return undefined
    const { errorCode = 'its last attempt failed', errorMessage } = group.scaleUp?.backoffInfo ?? {}
    return `node group ${group.name}: ${errorCode}${errorMessage ? `: ${errorMessage}` : ''}`
  } catch (error) {
    // Older autoscalers publish free text.
    if (error instanceof ApiError || error instanceof YAMLError) return undefined
    throw error
  }
}
