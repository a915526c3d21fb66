/**
 * Keeps the objects of an experiment alive as long as its tuner lives. A Lease says which tuner runs
 * the experiment, and a Job without pods owns every other object; both are renewed together. The Job
 * is complete from its start, and each renewal raises its `ttlSecondsAfterFinished`. When renewals
 * end, the cluster removes the Job and whatever it owns. No node and no image takes part.
 *
 *     not taken ──take──► held ──renewals fail for `goneMs`, or Job removed──► lost ──owner()──► held
 *                          │                                                     (another Job)
 *                          └──end──► not taken
 *
 * `take` waits for another tuner's lease until it has not been renewed for `goneMs`, and throws when
 * that tuner renews it.
 *
 * A moved `activeDeadlineSeconds` does not work: before 1.24 the Job controller checks it only at
 * the first moment that it was ever set to. The TTL controller of every version checks again at each
 * moved moment.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { ownerState, type Owner as Process, thisProcess } from '../../store/owner.ts'
import { LaunchError } from '../../types.ts'
import { type Api, ApiError } from './api.ts'
import {
  type Json,
  labelsOf,
  loadContainer,
  type Owner,
  ownerName,
  ownerReferences,
  ownSpec,
} from './manifests.ts'
import { overlaid, type PodOverlay } from './pod-policy.ts'
import { remove } from './sweep.ts'

/** Times in ms. */
interface LeasePatience {
  /** Without a renewal for so long a tuner counts as gone, and the cluster removes what it made. */
  readonly goneMs: number
  readonly renewMs: number
  /** Until a renewal that failed is tried again. */
  readonly retryMs: number
}

/**
 * From a kill to the last pod's end: at most `goneMs`, and what the cluster's controllers and a
 * pod's grace take, some seconds.
 */
const defaultPatience: LeasePatience = { goneMs: 40_000, renewMs: 10_000, retryMs: 1_000 }

export interface LeaseOptions {
  readonly api: Api
  readonly experimentId: string
  /** Of the Job that has no pods: policies look at its template all the same. */
  readonly image: string
  readonly overlay?: PodOverlay
  readonly patience?: Partial<LeasePatience>
}

interface LeaseObject {
  readonly metadata: { readonly resourceVersion: string; readonly ownerReferences?: unknown }
  readonly spec: {
    readonly holderIdentity?: string | null
    readonly renewTime?: string | null
    readonly leaseTransitions?: number
  }
}

/** An experiment's lease, taken when first asked for and renewed until it is given back. */
export class ExperimentLease {
  private holding: Promise<HeldLease> | undefined

  constructor(private readonly options: LeaseOptions) {}

  /**
   * The Job that owns what is made from now on; another one where the last ended by itself, or was
   * removed from outside.
   * @throws LaunchError where another tuner runs the experiment; ApiError; the signal's reason
   */
  async owner(signal: AbortSignal): Promise<Owner> {
    const before = this.holding
    if ((await before)?.lost !== undefined && this.holding === before) this.holding = undefined
    this.holding ??= take(this.options, signal).catch((error: unknown) => {
      this.holding = undefined
      throw error
    })
    return (await this.holding).owner
  }

  /** The Job as it is sent; also for a dry run. It never makes a pod. */
  plan(name: string): Json {
    return ownerJob(this.options, name, this.options.patience?.goneMs ?? defaultPatience.goneMs)
  }

  /** Looks now. @returns what became of the owner; undefined: it is there, and this tuner's */
  async whyLost(): Promise<string | undefined> {
    const held = await this.holding?.catch(() => undefined)
    await held?.renew()
    return held?.lost
  }

  /** Names of the Lease and of the Job, which a sweep leaves alone. */
  async names(): Promise<string[]> {
    const held = await this.holding
    return held === undefined ? [] : [leaseName(this.options.experimentId), held.owner.name]
  }

  /**
   * Ends the renewals. @returns whether the experiment's objects were still this tuner's to remove;
   * undefined: it was never taken
   */
  async end(): Promise<boolean | undefined> {
    const held = await this.holding?.catch(() => undefined)
    this.holding = undefined
    if (held === undefined) return undefined
    await held.end()
    if (held.lost === undefined) return true
    await remove(this.options.api, { kind: 'jobs', name: held.owner.name })
    return false
  }
}

interface HeldLease {
  readonly owner: Owner
  /** Why the owner is gone, and what it owned goes; or that another tuner took the lease. */
  readonly lost: string | undefined
  /** Ahead of its time. Resolves whatever comes of it. */
  renew(): Promise<void>
  end(): Promise<void>
}

const leaseName = ownerName

const leasesOf = (api: Api) => `/apis/coordination.k8s.io/v1/namespaces/${api.namespace}/leases`
const jobsOf = (api: Api) => `/apis/batch/v1/namespaces/${api.namespace}/jobs`

/** Takes the Lease and makes the Job that will own the experiment's objects. */
async function take(options: LeaseOptions, signal: AbortSignal): Promise<HeldLease> {
  const { api, experimentId } = options
  const patience = { ...defaultPatience, ...options.patience }
  const before = await untilFree(options, patience, signal)
  const name = `${ownerName(experimentId)}-lease-${randomBytes(3).toString('hex')}`
  try {
    const body = ownerJob(options, name, patience.goneMs)
    const { metadata } = await api.request<{ metadata: Owner }>('POST', jobsOf(api), {
      body,
      signal,
    })
    const owner = { name: metadata.name, uid: metadata.uid }
    const madeMs = performance.now()
    await writeLease(options, patience, owner, before, signal)
    return renewed(options, patience, owner, madeMs)
  } catch (error) {
    // An interrupt may have come between the Job and the answer.
    await remove(api, { kind: 'jobs', name })
    throw error
  }
}

/** Resolves with the Lease as a tuner that is gone left it, if there is one. */
async function untilFree(
  { api, experimentId }: LeaseOptions,
  { goneMs, retryMs }: LeasePatience,
  signal: AbortSignal,
): Promise<LeaseObject | undefined> {
  let seen: LeaseObject | undefined
  // Its renewal is timed by our own clock: clocks of two machines need not agree.
  for (let sinceMs = performance.now(); ; ) {
    const now = await existing(api, experimentId, signal)
    const holder = now?.spec.holderIdentity
    if (now === undefined || !holder) return now
    const state = stateOf(holder)
    if (state === 'dead' || state === 'this-process') return now
    if (state === 'alive') throw runElsewhere(experimentId, holder)
    if (seen !== undefined && now.spec.renewTime !== seen.spec.renewTime)
      throw runElsewhere(experimentId, holder)
    seen ??= now
    if (performance.now() - sinceMs > goneMs) return now
    await sleep(retryMs, undefined, { signal }).catch(() => signal.throwIfAborted())
  }
}

const runElsewhere = (experimentId: string, holder: string): LaunchError =>
  new LaunchError(
    `another tuner runs experiment ${experimentId}: ${holder} renews its lease`,
    'stop that tuner first',
    undefined,
    'experiment',
  )

async function existing(
  api: Api,
  experimentId: string,
  signal: AbortSignal,
): Promise<LeaseObject | undefined> {
  try {
    return await api.request<LeaseObject>('GET', `${leasesOf(api)}/${leaseName(experimentId)}`, {
      signal,
    })
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined
    throw error
  }
}

/** Process, its start and its machine: a later process of the same number is another holder. */
const identityOf = ({ host, pid, startedAt }: Process): string => `${host}/${pid}/${startedAt}`

function stateOf(holder: string): ReturnType<typeof ownerState> {
  const [, host, pid, startedAt] = /^([^/]*)\/(\d+)\/(.*)$/.exec(holder) ?? []
  return host === undefined
    ? 'unknown'
    : ownerState({ host, pid: Number(pid), startedAt: startedAt! })
}

async function writeLease(
  { api, experimentId }: LeaseOptions,
  { goneMs }: LeasePatience,
  owner: Owner,
  before: LeaseObject | undefined,
  signal?: AbortSignal,
): Promise<void> {
  const name = leaseName(experimentId)
  const now = microTime()
  const spec = {
    holderIdentity: identityOf(thisProcess()),
    leaseDurationSeconds: Math.ceil(goneMs / 1000),
    acquireTime: now,
    renewTime: now,
    leaseTransitions: before === undefined ? 0 : (before.spec.leaseTransitions ?? 0) + 1,
  }
  const metadata = {
    name,
    labels: labelsOf(experimentId, 'lease'),
    ownerReferences: ownerReferences(owner),
  }
  const body = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec }
  if (before === undefined) {
    await api.request('POST', leasesOf(api), { body, signal })
    return
  }
  // With its version: of two tuners that find it free only one gets it.
  const versioned = { ...metadata, resourceVersion: before.metadata.resourceVersion }
  await api.request('PATCH', `${leasesOf(api)}/${name}`, {
    body: { metadata: versioned, spec },
    signal,
  })
}

/** RFC 3339 with microseconds, as a Lease has it. */
const microTime = (): string => new Date().toISOString().replace('Z', '000Z')

function renewed(
  options: LeaseOptions,
  patience: LeasePatience,
  owner: Owner,
  madeMs: number,
): HeldLease {
  const { api, experimentId } = options
  const ended = new AbortController()
  const lease = `${leasesOf(api)}/${leaseName(experimentId)}`
  const us = identityOf(thisProcess())
  let lost: string | undefined
  let renewedMs = madeMs
  const once = async (): Promise<void> => {
    await prolong(api, owner, performance.now() - madeMs + patience.goneMs)
    const body = { spec: { renewTime: microTime() } }
    const now = await api
      .request<LeaseObject>('PATCH', lease, { body, once: true })
      .catch((error: unknown) => {
        if (!(error instanceof ApiError) || error.status !== 404) throw error
        return writeLease(options, patience, owner, undefined)
      })
    if (now !== undefined && now.spec.holderIdentity !== us)
      throw new OwnerGone(`another tuner has taken over the experiment: ${now.spec.holderIdentity}`)
    renewedMs = performance.now()
  }
  /** @returns whether it was renewed */
  const renew = (): Promise<boolean> =>
    once().then(
      () => true,
      (error: unknown) => {
        if (!(error instanceof OwnerGone)) return false
        const lateMs = performance.now() - renewedMs
        lost ??=
          lateMs < patience.goneMs
            ? error.message
            : `the Job that owns the trial's objects expired: it was not renewed for ${Math.round(lateMs / 1000)} s (the API server may have been unreachable, or this machine suspended)`
        return false
      },
    )
  const pause = (ms: number) =>
    sleep(ms, undefined, { signal: ended.signal, ref: false }).catch(() => {}) // ended: the loop sees it
  const renewing = (async () => {
    await pause(patience.renewMs)
    // A renewal that fails is repeated: it has until the end.
    while (!ended.signal.aborted && lost === undefined)
      await pause((await renew()) ? patience.renewMs : patience.retryMs)
  })()
  return {
    owner,
    get lost() {
      return lost
    },
    renew: async () => {
      await renew()
    },
    end: async () => {
      ended.abort()
      await renewing
    },
  }
}

/** What was held is not ours any more. */
class OwnerGone extends Error {}

const removed = "another program removed the Job that owns the trial's objects (perhaps tune clean)"

interface OwnerJob {
  readonly metadata: { readonly deletionTimestamp?: string }
}

/** Has the cluster remove the owner later. @param liveMs from the moment it was made */
async function prolong(api: Api, { name, uid }: Owner, liveMs: number): Promise<void> {
  const body = { metadata: { uid }, spec: { ttlSecondsAfterFinished: Math.ceil(liveMs / 1000) } }
  const job = await api
    .request<OwnerJob>('PATCH', `${jobsOf(api)}/${name}`, { body, once: true })
    .catch((error: unknown) => {
      if (error instanceof ApiError && (error.status === 404 || error.status === 409))
        throw new OwnerGone(removed)
      throw error
    })
  if (job.metadata.deletionTimestamp !== undefined) throw new OwnerGone(removed)
}

/**
 * Owns every object of an experiment: deleting it deletes them. It wants no pod, so that the
 * cluster completes it at once.
 */
function ownerJob(
  { experimentId, image, overlay }: Omit<LeaseOptions, 'api'>,
  name: string,
  liveMs: number,
): Json {
  const labels = labelsOf(experimentId, 'experiment')
  const containers = [{ name: loadContainer, image, args: ['--version'] }]
  const spec = overlaid(
    overlaid(
      overlaid(ownSpec(loadContainer), { restartPolicy: 'Never', containers }),
      overlay?.spec,
    ),
    // Whatever the load generator itself may use.
    { containers: [{ name: loadContainer, resources: idle }] },
  )
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, labels },
    spec: {
      parallelism: 0,
      completions: 0,
      backoffLimit: 0,
      ttlSecondsAfterFinished: Math.ceil(liveMs / 1000),
      template: { metadata: { labels: { ...overlay?.metadata?.labels, ...labels } }, spec },
    },
  }
}

const idle = { requests: { cpu: '10m', memory: '32Mi' }, limits: { cpu: '10m', memory: '32Mi' } }
