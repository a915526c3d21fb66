/** Classifies failed pods: the trial is infeasible, failed and retried, or worth waiting for. */
import type { CoreV1Event, V1Pod } from '@kubernetes/client-node'
import { InfeasibleError, LaunchError } from '../../../types.ts'
import { builtinExitCodes } from '../../builtin.ts'
import { type Cause, describeExit, diagnose } from '../../diagnosis.ts'
import { type CauseHints, createExitError, describeCause, type LogEnd } from '../../failure.ts'
import { ApiError } from '../api/api.ts'
import { findExceededQuota, sumQuotaUse } from '../scheduling/quota.ts'
import type { PodState } from '../watch/pod-state.ts'

type EndedState = Extract<PodState, { kind: 'ended' }>

/** Why the tuned container ended. */
export function diagnoseEnd(ended: EndedState, log: LogEnd, isBuiltin: boolean): Cause {
  if (ended.outOfMemory)
    return { kind: 'out-of-memory', evidence: 'OOMKilled: it needed more memory than its limit' }
  const exit = { code: ended.code, signal: getSignalName(ended.signal) }
  return diagnose(exit, log.tail(200), false, isBuiltin ? builtinExitCodes : {})
}

/** Describes the end as text, e.g. 'out of memory (OOMKilled: ...)'. */
export const describeEnd = (ended: EndedState, cause: Cause): string =>
  `${describeCause(cause, describeExit({ code: ended.code, signal: getSignalName(ended.signal) }))}${ended.message ? `: ${ended.message.trim()}` : ''}`

const hints: CauseHints = {
  missing: 'the image lacks a program or library that the command needs',
  'port-taken': 'another container of the pod uses its port',
  misconfigured: 'correct the predictor section of the experiment',
  killed: 'the node, or somebody on it, killed it',
}

/** The tuned container ended before it served. */
export function createEndError(ended: EndedState, log: LogEnd, isBuiltin: boolean): Error {
  const cause = diagnoseEnd(ended, log, isBuiltin)
  return createExitError(cause, describeEnd(ended, cause), ended.code === 0, log, hints)
}

const getSignalName = (signal: number): NodeJS.Signals | null =>
  signal === 9 ? 'SIGKILL' : signal === 15 ? 'SIGTERM' : null

/** The key of the experiment file from which a pod is generated. */
export type PolicyKey = 'kubernetes.pod' | 'kubernetes.job'

/** Why a pod is rejected. `busy`: running pods use up the quota, so wait. */
type Refusal =
  | { readonly kind: 'busy'; readonly what: string }
  | { readonly kind: 'final'; readonly error: Error }

/** @param concurrentPods pods of the same trial, which run as long as the rejected one */
export function classifyPodRefusal(
  error: unknown,
  key: PolicyKey = 'kubernetes.pod',
  concurrentPods: readonly V1Pod[] = [],
): Refusal {
  if (!(error instanceof ApiError)) throw error
  const { message, status } = error
  const namespaceError = findNamespaceError(message)
  if (namespaceError !== undefined) return { kind: 'final', error: namespaceError }
  const exceeded =
    status === 403 ? findExceededQuota(message, sumQuotaUse(concurrentPods)) : undefined
  if (exceeded === 'others') return { kind: 'busy', what: message }
  if (exceeded !== undefined)
    return {
      kind: 'final',
      error: new InfeasibleError(
        exceeded.resource.includes('gpu') ? 'no-such-gpu' : 'never-ready',
        message,
      ),
    }
  // 'maximum cpu usage per Container is 2, but limit is 4'
  if (
    status === 403 &&
    /(maximum|minimum) .* usage per|must be less than or equal to/.test(message)
  )
    return { kind: 'final', error: new InfeasibleError('never-ready', message) }
  // The server understood and rejected the request: a retry would be rejected too.
  const isLasting = status === 400 || status === 403 || status === 422
  const hint = findPolicyHint(message, key) ?? error.hint
  return {
    kind: 'final',
    error: new LaunchError(message, hint, undefined, isLasting ? 'configuration' : undefined),
  }
}

/**
 * Why the controller of a Job cannot create its pod; undefined while it reports nothing.
 * @param concurrentPods pods that run as long as the Job
 */
export function classifyJobRefusal(
  warnings: readonly string[],
  concurrentPods: readonly V1Pod[],
): Refusal | undefined {
  const warning = warnings.findLast((warning) => warning.startsWith('FailedCreate: '))
  if (warning === undefined) return undefined
  const namespaceError = findNamespaceError(warning)
  if (namespaceError !== undefined) return { kind: 'final', error: namespaceError }
  const exceeded = findExceededQuota(warning, sumQuotaUse(concurrentPods))
  if (exceeded === 'others') return { kind: 'busy', what: warning }
  const error =
    exceeded === undefined || findExceededQuota(warning) !== 'others'
      ? new LaunchError(
          `the Job of the load generator cannot create a pod: ${warning}`,
          findPolicyHint(warning, 'kubernetes.job'),
          undefined,
          'experiment',
        )
      : new LaunchError(
          `the quota has no room for the load generator next to its predictor (${exceeded.resource}): ${warning}`,
          'raise the quota, tune smaller values, or lower the request of the load generator: kubernetes: {job: {spec: {containers: [{name: load, resources: ...}]}}}',
          undefined,
          'run',
        )
  return { kind: 'final', error }
}

/** A namespace that is not there, or is being deleted, ends every trial. */
export function findNamespaceError(message: string): LaunchError | undefined {
  const terminating = /in namespace (\S+) because it is being terminated/.exec(message)
  if (terminating)
    return new LaunchError(
      `namespace ${terminating[1]} is being deleted: no objects can be created in it`,
      'choose another with --namespace, or create the namespace again and run tune resume',
      undefined,
      'experiment',
    )
  const missing = /^namespaces "([^"]+)" not found/.exec(message)
  if (missing)
    return new LaunchError(
      `the cluster has no namespace ${missing[1]}`,
      `kubectl create namespace ${missing[1]}, or choose another with --namespace`,
      undefined,
      'experiment',
    )
  return undefined
}

/** Finds a hint on what to change if a policy of the cluster rejects a pod. */
function findPolicyHint(message: string, key: PolicyKey): string | undefined {
  if (/must specify|exceeded quota|usage per/.test(message))
    return `set the resources that the quota requires: ${key}: {spec: {containers: [...]}}`
  if (/admission webhook|violates PodSecurity|is forbidden/.test(message))
    return `a policy of the cluster rejects the pod: correct ${key}, or ask its administrator`
  return undefined
}

/** Lists the last three warnings among the events, newest last: 'FailedMount: ...'. */
export const listWarnings = (events: readonly CoreV1Event[]): string[] =>
  events
    .filter(({ type }) => type === 'Warning')
    .slice(-3)
    .map(({ reason, message }) => `${reason}: ${message}`)
