/**
 * The state of a trial's pod, read from its status alone:
 *
 *     starting ◄──► unschedulable          the scheduler finds a node, or none
 *        │
 *        ▼
 *     running ──► ended                    the tuned container ended by itself
 *
 *     any state ──► broken                 it cannot run as it stands (image, volumes, command)
 *     any state ──► lost                   evicted, deleted, or its node is gone
 *
 * A launch fails at `ended`, `broken` and `lost`.
 */
import type { CoreV1Event, V1ContainerStatus, V1Pod } from '@kubernetes/client-node'

export type PodState =
  /** Being scheduled, pulling its image, or mounting its volumes. */
  | { readonly kind: 'starting'; readonly scheduled: boolean }
  /** The scheduler finds no node, with its message. It keeps trying. */
  | { readonly kind: 'unschedulable'; readonly why: string }
  | { readonly kind: 'running'; readonly ip: string }
  /** The tuned container has ended. */
  | {
      readonly kind: 'ended'
      readonly code: number
      readonly signal: number
      readonly outOfMemory: boolean
      readonly message: string
    }
  /** It cannot run as it stands, whatever the configuration. */
  | {
      readonly kind: 'broken'
      readonly what: string
      readonly hint: string
      /** A retry would end the same way. */
      readonly final: boolean
    }
  /** Ended or removed by the cluster or another program: a retry may succeed. */
  | { readonly kind: 'lost'; readonly what: string }

/** Reasons of a waiting container that do not resolve by themselves, each with a hint. */
const waitingHints: Readonly<Record<string, string>> = {
  ErrImagePull: 'check that the image exists and that the pod names its pull secret',
  ImagePullBackOff: 'check that the image exists and that the pod names its pull secret',
  ErrImageNeverPull:
    'the image is not on the node, and the pull policy is Never: load it there, or change the policy',
  InvalidImageName: 'correct the image of the pod template',
  ImageInspectError: 'the image on the node is damaged',
  RegistryUnavailable: 'the registry does not answer',
  CreateContainerConfigError: 'check that every Secret and ConfigMap that the pod names exists',
  CreateContainerError: 'correct the container of the pod template',
  RunContainerError: 'check that the command exists in the image',
  CrashLoopBackOff: 'see its log for the reason',
}

/** Possibly a transient fault of the registry: the kubelet retries the first failed pull. */
const retriedReasons: ReadonlySet<string> = new Set(['ErrImagePull', 'RegistryUnavailable'])

/** @param container name of the tuned container */
export function readPodState(pod: V1Pod, container: string): PodState {
  const { status, metadata } = pod
  const disruption = status?.conditions?.find(
    ({ type, status }) => type === 'DisruptionTarget' && status === 'True',
  )
  if (metadata?.deletionTimestamp)
    return {
      kind: 'lost',
      what: `another program deleted the pod${disruption ? `: ${disruption.message ?? disruption.reason}` : ''}`,
    }
  const tuned = status?.containerStatuses?.find(({ name }) => name === container)
  // Evicted, Preempting, NodeLost, DeadlineExceeded, OutOfcpu, UnexpectedAdmissionError, ...
  if (status?.reason && (status.phase === 'Failed' || status.reason === 'NodeLost')) {
    return { kind: 'lost', what: `${status.reason}${status.message ? `: ${status.message}` : ''}` }
  }
  const ended =
    tuned?.state?.terminated ?? (tuned?.restartCount ? tuned.lastState?.terminated : undefined)
  if (ended) {
    const { exitCode, signal = 0, reason, message = '' } = ended
    if (reason === 'ContainerCannotRun' || reason === 'StartError')
      return {
        kind: 'broken',
        what: `${reason}: ${message}`,
        hint: waitingHints.RunContainerError!,
        final: true,
      }
    return { kind: 'ended', code: exitCode, signal, outOfMemory: reason === 'OOMKilled', message }
  }
  const trouble =
    findTrouble(status?.initContainerStatuses, 'init container') ??
    findTrouble(status?.containerStatuses, 'container')
  if (trouble) return trouble
  if (status?.phase === 'Failed')
    return {
      kind: 'lost',
      what: status.message ?? 'the pod failed, and the cluster reports no reason',
    }
  if (tuned?.state?.running && status?.podIP) return { kind: 'running', ip: status.podIP }
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status === 'False' && scheduled.reason === 'Unschedulable')
    return { kind: 'unschedulable', why: scheduled.message ?? 'no node fits' }
  return { kind: 'starting', scheduled: scheduled?.status === 'True' }
}

function findTrouble(
  statuses: readonly V1ContainerStatus[] = [],
  what: string,
): PodState | undefined {
  for (const { name, image, state, restartCount } of statuses) {
    const { waiting, terminated } = state ?? {}
    if (
      waiting?.reason &&
      waiting.reason in waitingHints &&
      !(
        retriedReasons.has(waiting.reason) &&
        restartCount === 0 &&
        isTransientMessage(waiting.message)
      )
    ) {
      const detail = waiting.message ? `: ${waiting.message}` : ` of ${image}`
      const final = permanentReasons.has(waiting.reason) || !isTransientMessage(waiting.message)
      return {
        kind: 'broken',
        what: `${what} ${name}: ${waiting.reason}${detail}`,
        hint: waitingHints[waiting.reason]!,
        final,
      }
    }
    if (what === 'init container' && terminated && terminated.exitCode !== 0) {
      const { exitCode, reason, message } = terminated
      return {
        kind: 'broken',
        what: `init container ${name} ended with exit code ${exitCode}${reason === 'OOMKilled' ? ' (OOMKilled)' : ''}${message ? `: ${message}` : ''}`,
        hint: 'correct the pod template',
        final: false,
      }
    }
  }
  return undefined
}

/** Reasons that no transient fault of a registry or node explains. */
const permanentReasons: ReadonlySet<string> = new Set([
  'InvalidImageName',
  'CreateContainerConfigError',
  'RunContainerError',
])

const isTransientMessage = (message = ''): boolean =>
  !/not found|manifest unknown|denied|unauthorized|forbidden|invalid reference/i.test(message)

/**
 * Adds the cause of a failed image pull, and whether it is transient. Nodes before 1.31 report the
 * cause only in an event.
 */
export function addPullCause(state: PodState, events: readonly CoreV1Event[]): PodState {
  if (state.kind !== 'broken' || !state.what.includes('ImagePullBackOff')) return state
  const cause = events.findLast(({ message = '' }) =>
    message.startsWith('Failed to pull image'),
  )?.message
  if (cause === undefined) return state
  return {
    ...state,
    what: `${state.what}: ${cause}`,
    final: state.final || !isTransientMessage(cause),
  }
}
