/** What a failed pod means for its trial: infeasible, failed and retried, or worth waiting for. */
import type { CoreV1Event, V1Pod } from '@kubernetes/client-node'
import { InfeasibleError, LaunchError } from '../../types.ts'
import { builtinExitCodes } from '../builtin.ts'
import { type Cause, describeExit, diagnose } from '../diagnosis.ts'
import { type CauseHints, describeCause, endBeforeReady, type LogEnd } from '../failure.ts'
import { ApiError } from './api.ts'
import type { PodState } from './pod-state.ts'

type Ended = Extract<PodState, { kind: 'ended' }>

/** Why the tuned container ended. */
export function causeOfEnd(ended: Ended, log: LogEnd, builtin: boolean): Cause {
  if (ended.outOfMemory)
    return { kind: 'out-of-memory', evidence: 'OOMKilled: it needed more memory than its limit' }
  const exit = { code: ended.code, signal: signalName(ended.signal) }
  return diagnose(exit, log.tail(200), false, builtin ? builtinExitCodes : {})
}

/** The end in words, e.g. 'out of memory (OOMKilled: ...)'. */
export const describeEnd = (ended: Ended, cause: Cause): string =>
  `${describeCause(cause, describeExit({ code: ended.code, signal: signalName(ended.signal) }))}${ended.message ? `: ${ended.message.trim()}` : ''}`

const hints: CauseHints = {
  missing: 'the image lacks a program or library that the command needs',
  'port-taken': 'another container of the pod uses its port',
  misconfigured: 'correct the predictor section of the experiment',
  killed: 'the node, or somebody on it, killed it',
}

/** The tuned container ended before it served. */
export function launchEnd(ended: Ended, log: LogEnd, builtin: boolean): Error {
  const cause = causeOfEnd(ended, log, builtin)
  return endBeforeReady(cause, describeEnd(ended, cause), ended.code === 0, log, hints)
}

const signalName = (signal: number): NodeJS.Signals | null =>
  signal === 9 ? 'SIGKILL' : signal === 15 ? 'SIGTERM' : null

/** The key of the experiment file that a pod is made from. */
export type PolicyKey = 'kubernetes.pod' | 'kubernetes.job'

/** Why the API server refuses a pod. `busy`: running pods use up the quota, so wait. */
type Refusal =
  | { readonly kind: 'busy'; readonly what: string }
  | { readonly kind: 'final'; readonly error: Error }

export function podRefused(error: unknown, key: PolicyKey = 'kubernetes.pod'): Refusal {
  if (!(error instanceof ApiError)) throw error
  const { message, status } = error
  const gone = namespaceGone(message)
  if (gone !== undefined) return { kind: 'final', error: gone }
  const over = status === 403 ? overQuota(message) : undefined
  if (over === 'others') return { kind: 'busy', what: message }
  if (over !== undefined)
    return {
      kind: 'final',
      error: new InfeasibleError(
        over.resource.includes('gpu') ? 'no-such-gpu' : 'never-ready',
        message,
      ),
    }
  // 'maximum cpu usage per Container is 2, but limit is 4'
  if (
    status === 403 &&
    /(maximum|minimum) .* usage per|must be less than or equal to/.test(message)
  )
    return { kind: 'final', error: new InfeasibleError('never-ready', message) }
  // The server understood the request and refuses it: it would refuse it again.
  const lasting = status === 400 || status === 403 || status === 422
  const hint = policyHint(message, key) ?? error.hint
  return {
    kind: 'final',
    error: new LaunchError(message, hint, undefined, lasting ? 'configuration' : undefined),
  }
}

/**
 * Why the controller of a Job cannot create its pod, in the cluster's words; undefined while it
 * reports nothing.
 * @param beside pods that run as long as the Job does
 */
export function jobPodRefused(
  warnings: readonly string[],
  beside: readonly V1Pod[],
): Refusal | undefined {
  const said = warnings.findLast((warning) => warning.startsWith('FailedCreate: '))
  if (said === undefined) return undefined
  const gone = namespaceGone(said)
  if (gone !== undefined) return { kind: 'final', error: gone }
  const over = overQuota(said, quotaUse(beside))
  if (over === 'others') return { kind: 'busy', what: said }
  const error =
    over === undefined || overQuota(said) !== 'others'
      ? new LaunchError(
          `the Job of the load generator cannot create a pod: ${said}`,
          policyHint(said, 'kubernetes.job'),
          undefined,
          'experiment',
        )
      : new LaunchError(
          `the quota has no room for the load generator next to its predictor (${over.resource}): ${said}`,
          'raise the quota, tune smaller values, or lower the request of the load generator: kubernetes: {job: {spec: {containers: [{name: load, resources: ...}]}}}',
          undefined,
          'run',
        )
  return { kind: 'final', error }
}

/** What pods use of a quota, by the names that quotas have for it. */
export function quotaUse(pods: readonly V1Pod[]): Map<string, number> {
  const use = new Map<string, number>()
  const add = (name: string, amount: number) => use.set(name, (use.get(name) ?? 0) + amount)
  for (const { spec } of pods) {
    add('pods', 1)
    add('count/pods', 1)
    for (const { resources } of spec?.containers ?? []) {
      for (const [name, amount] of Object.entries({
        ...resources?.limits,
        ...resources?.requests,
      })) {
        add(name, quantity(amount))
        add(`requests.${name}`, quantity(amount))
      }
      for (const [name, amount] of Object.entries(resources?.limits ?? {}))
        add(`limits.${name}`, quantity(amount))
    }
  }
  return use
}

/** A namespace that is not there, or is being deleted, ends every trial. */
export function namespaceGone(message: string): LaunchError | undefined {
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

/** What to change where a policy of the cluster refuses a pod. */
function policyHint(message: string, key: PolicyKey): string | undefined {
  if (/must specify|exceeded quota|usage per/.test(message))
    return `set the resources that the quota requires: ${key}: {spec: {containers: [...]}}`
  if (/admission webhook|violates PodSecurity|is forbidden/.test(message))
    return `a policy of the cluster rejects the pod: correct ${key}, or ask its administrator`
  return undefined
}

/**
 * Whether a quota refuses the pod: `others` where other pods use it up, else the resource that the
 * pod requests too much of, together with `held`.
 * @param held use of the quota by pods that run as long as this one
 */
function overQuota(
  message: string,
  held: ReadonlyMap<string, number> = new Map(),
): 'others' | { readonly resource: string } | undefined {
  if (!message.includes('exceeded quota')) return undefined
  const resource = beyondQuota(message, held)
  return resource === undefined ? 'others' : { resource }
}

/** The resource that exceeds the whole quota; undefined: other pods use it up. */
function beyondQuota(message: string, held: ReadonlyMap<string, number>): string | undefined {
  const list = (name: string) => {
    const text =
      new RegExp(`${name}: ([^:]*?)(?:, (?:used|limited|requested):|$| \\()`).exec(message)?.[1] ??
      ''
    return new Map(text.split(',').map((pair) => pair.split('=') as [string, string]))
  }
  const limited = list('limited')
  for (const [resource, asked] of list('requested')) {
    const max = limited.get(resource)
    if (max !== undefined && quantity(asked) + (held.get(resource) ?? 0) > quantity(max))
      return resource
  }
  return undefined
}

const suffixes: Readonly<Record<string, number>> = {
  '': 1,
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
}

/** '500m' → 0.5, '4Gi' → 4294967296; NaN for what is no quantity. */
export function quantity(text: string): number {
  const [, number = '', suffix = ''] = /^([0-9.eE+-]+?)([a-zA-Z]{0,2})$/.exec(text.trim()) ?? []
  return number === '' ? Number.NaN : Number(number) * (suffixes[suffix] ?? Number.NaN)
}

/** The last warnings among the events, newest last: 'FailedMount: ...'. */
export const warningsIn = (events: readonly CoreV1Event[]): string[] =>
  events
    .filter(({ type }) => type === 'Warning')
    .slice(-3)
    .map(({ reason, message }) => `${reason}: ${message}`)
