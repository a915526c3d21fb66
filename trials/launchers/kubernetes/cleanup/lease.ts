/**
 * Keeps the objects of an experiment alive as long as its tuner lives. A Lease says which tuner runs
 * the experiment, and a Job without pods owns every other object; both are renewed together. The Job
 * is complete from its start, and each renewal raises its `ttlSecondsAfterFinished`. When renewals
 * end, the cluster removes the Job and whatever it owns. No node and no image takes part.
 *
 *     free ──acquireLease──► acquired ──renewals fail for `expiryMs`, or Job removed──► lost
 *
 * `end` frees an acquired lease; `acquireOwner` acquires a lost one again, with another Job.
 * `acquireLease` waits for another tuner's lease until it has not been renewed for `expiryMs`, and throws when
 * that tuner renews it.
 *
 * Extending `activeDeadlineSeconds` does not work: before 1.24 the Job controller checks only the
 * first deadline. The TTL controller of every version checks each extended one.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { findOwnerState, getThisProcess, type Owner as Process } from '../../../store/owner.ts'
import { LaunchError } from '../../../types.ts'
import { type Api, ApiError } from '../api/api.ts'
import {
  createLabels,
  createOwnerReferences,
  createOwnImageSpec,
  formatOwnerName,
  type Json,
  loadContainer,
  type Owner,
} from '../manifests/manifests.ts'
import { mergeOverlay, type PodOverlay } from '../manifests/pod-policy.ts'
import { removeObject } from './sweep.ts'

/** Times in ms. */
interface LeaseTimeouts {
  /**
   * Without a renewal for this time a tuner counts as dead, and the cluster removes its objects.
   */
  readonly expiryMs: number
  readonly renewMs: number
  /** Delay before a failed renewal is retried. */
  readonly retryMs: number
}

/**
 * After a kill, pods end within `expiryMs` and a few seconds for controllers and the grace period.
 */
const defaultTimeouts: LeaseTimeouts = { expiryMs: 40_000, renewMs: 10_000, retryMs: 1_000 }

export interface LeaseOptions {
  readonly api: Api
  readonly experimentId: string
  /** Image of the Job without pods: policies check its template all the same. */
  readonly image: string
  readonly overlay?: PodOverlay
  readonly timeouts?: Partial<LeaseTimeouts>
}

interface LeaseObject {
  readonly metadata: { readonly resourceVersion: string; readonly ownerReferences?: unknown }
  readonly spec: {
    readonly holderIdentity?: string | null
    readonly renewTime?: string | null
    readonly leaseTransitions?: number
  }
}

/** An experiment's lease: acquired on first use, renewed until released. */
export class ExperimentLease {
  private renewedLease: Promise<RenewedLease> | undefined

  constructor(private readonly options: LeaseOptions) {}

  /**
   * The Job that owns new objects; a new Job if the last one expired or was removed.
   * @throws LaunchError if another tuner runs the experiment; ApiError; the signal's reason
   */
  async acquireOwner(signal: AbortSignal): Promise<Owner> {
    const previous = this.renewedLease
    if ((await previous)?.lossReason !== undefined && this.renewedLease === previous)
      this.renewedLease = undefined
    this.renewedLease ??= acquireLease(this.options, signal).catch((error: unknown) => {
      this.renewedLease = undefined
      throw error
    })
    return (await this.renewedLease).owner
  }

  /** Plans the manifest of the Job, also for a dry run. It never creates a pod. */
  plan(name: string): Json {
    return createOwnerJob(
      this.options,
      name,
      this.options.timeouts?.expiryMs ?? defaultTimeouts.expiryMs,
    )
  }

  /**
   * Renews now.
   * @returns why the owner is lost; undefined if it exists and belongs to this tuner
   */
  async findLossReason(): Promise<string | undefined> {
    const current = await this.renewedLease?.catch(() => undefined)
    await current?.renew()
    return current?.lossReason
  }

  /** Names of the Lease and the Job, which a sweep must not remove. */
  async listNames(): Promise<string[]> {
    const current = await this.renewedLease
    return current === undefined ? [] : [leaseName(this.options.experimentId), current.owner.name]
  }

  /**
   * Ends the renewals.
   * @returns whether this tuner still owned the experiment's objects; undefined if the lease was
   * never acquired
   */
  async end(): Promise<boolean | undefined> {
    const current = await this.renewedLease?.catch(() => undefined)
    this.renewedLease = undefined
    if (current === undefined) return undefined
    await current.end()
    if (current.lossReason === undefined) return true
    await removeObject(this.options.api, { kind: 'jobs', name: current.owner.name })
    return false
  }
}

interface RenewedLease {
  readonly owner: Owner
  /** Why the lease is lost: the owner was removed or expired, or another tuner acquired it. */
  readonly lossReason: string | undefined
  /** Renews at once. Never rejects. */
  renew(): Promise<void>
  end(): Promise<void>
}

const leaseName = formatOwnerName

const getLeasesPath = (api: Api) =>
  `/apis/coordination.k8s.io/v1/namespaces/${api.namespace}/leases`
const getJobsPath = (api: Api) => `/apis/batch/v1/namespaces/${api.namespace}/jobs`

/** Acquires the Lease and creates the Job that owns the experiment's objects. */
async function acquireLease(options: LeaseOptions, signal: AbortSignal): Promise<RenewedLease> {
  const { api, experimentId } = options
  const timeouts = { ...defaultTimeouts, ...options.timeouts }
  const expiredLease = await waitUntilFree(options, timeouts, signal)
  const name = `${formatOwnerName(experimentId)}-lease-${randomBytes(3).toString('hex')}`
  try {
    const body = createOwnerJob(options, name, timeouts.expiryMs)
    const { metadata } = await api.request<{ metadata: Owner }>('POST', getJobsPath(api), {
      body,
      signal,
    })
    const owner = { name: metadata.name, uid: metadata.uid }
    const createdAtMs = performance.now()
    await writeLease(options, timeouts, owner, expiredLease, signal)
    return startRenewals(options, timeouts, owner, createdAtMs)
  } catch (error) {
    // The Job may have been created even if the answer was lost.
    await removeObject(api, { kind: 'jobs', name })
    throw error
  }
}

/**
 * Waits until no living tuner holds the lease.
 * @returns the expired Lease of a dead tuner, if there is one
 */
async function waitUntilFree(
  { api, experimentId }: LeaseOptions,
  { expiryMs, retryMs }: LeaseTimeouts,
  signal: AbortSignal,
): Promise<LeaseObject | undefined> {
  let firstLease: LeaseObject | undefined
  // Time renewals by the local clock: clocks of two machines may differ.
  for (let sinceMs = performance.now(); ; ) {
    const lease = await findLease(api, experimentId, signal)
    const holder = lease?.spec.holderIdentity
    if (lease === undefined || !holder) return lease
    const state = findHolderState(holder)
    if (state === 'dead' || state === 'this-process') return lease
    if (state === 'alive') throw createConflictError(experimentId, holder)
    if (firstLease !== undefined && lease.spec.renewTime !== firstLease.spec.renewTime)
      throw createConflictError(experimentId, holder)
    firstLease ??= lease
    if (performance.now() - sinceMs > expiryMs) return lease
    await sleep(retryMs, undefined, { signal }).catch(() => signal.throwIfAborted())
  }
}

const createConflictError = (experimentId: string, holder: string): LaunchError =>
  new LaunchError(
    `another tuner runs experiment ${experimentId}: ${holder} renews its lease`,
    'stop that tuner first',
    undefined,
    'experiment',
  )

async function findLease(
  api: Api,
  experimentId: string,
  signal: AbortSignal,
): Promise<LeaseObject | undefined> {
  try {
    return await api.request<LeaseObject>(
      'GET',
      `${getLeasesPath(api)}/${leaseName(experimentId)}`,
      {
        signal,
      },
    )
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined
    throw error
  }
}

/** Identity of a holder: machine, process id and start time, because process ids are reused. */
const formatHolder = ({ host, pid, startedAt }: Process): string => `${host}/${pid}/${startedAt}`

function findHolderState(holder: string): ReturnType<typeof findOwnerState> {
  const [, host, pid, startedAt] = /^([^/]*)\/(\d+)\/(.*)$/.exec(holder) ?? []
  return host === undefined
    ? 'unknown'
    : findOwnerState({ host, pid: Number(pid), startedAt: startedAt! })
}

async function writeLease(
  { api, experimentId }: LeaseOptions,
  { expiryMs }: LeaseTimeouts,
  owner: Owner,
  expiredLease: LeaseObject | undefined,
  signal?: AbortSignal,
): Promise<void> {
  const name = leaseName(experimentId)
  const now = formatMicroTime()
  const spec = {
    holderIdentity: formatHolder(getThisProcess()),
    leaseDurationSeconds: Math.ceil(expiryMs / 1000),
    acquireTime: now,
    renewTime: now,
    leaseTransitions:
      expiredLease === undefined ? 0 : (expiredLease.spec.leaseTransitions ?? 0) + 1,
  }
  const metadata = {
    name,
    labels: createLabels(experimentId, 'lease'),
    ownerReferences: createOwnerReferences(owner),
  }
  const body = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec }
  if (expiredLease === undefined) {
    await api.request('POST', getLeasesPath(api), { body, signal })
    return
  }
  // With its resource version: only one of two competing tuners succeeds.
  const versioned = { ...metadata, resourceVersion: expiredLease.metadata.resourceVersion }
  await api.request('PATCH', `${getLeasesPath(api)}/${name}`, {
    body: { metadata: versioned, spec },
    signal,
  })
}

/** RFC 3339 with microseconds, as in a Lease. */
const formatMicroTime = (): string => new Date().toISOString().replace('Z', '000Z')

function startRenewals(
  options: LeaseOptions,
  timeouts: LeaseTimeouts,
  owner: Owner,
  createdAtMs: number,
): RenewedLease {
  const { api, experimentId } = options
  const ended = new AbortController()
  const leasePath = `${getLeasesPath(api)}/${leaseName(experimentId)}`
  const ownHolder = formatHolder(getThisProcess())
  let lossReason: string | undefined
  let renewedMs = createdAtMs
  const renewOnce = async (): Promise<void> => {
    await extendOwner(api, owner, performance.now() - createdAtMs + timeouts.expiryMs)
    const body = { spec: { renewTime: formatMicroTime() } }
    const lease = await api
      .request<LeaseObject>('PATCH', leasePath, { body, once: true })
      .catch((error: unknown) => {
        if (!(error instanceof ApiError) || error.status !== 404) throw error
        return writeLease(options, timeouts, owner, undefined)
      })
    if (lease !== undefined && lease.spec.holderIdentity !== ownHolder)
      throw new OwnerGoneError(
        `another tuner has taken over the experiment: ${lease.spec.holderIdentity}`,
      )
    renewedMs = performance.now()
  }
  /** @returns whether the renewal succeeded */
  const renew = (): Promise<boolean> =>
    renewOnce().then(
      () => true,
      (error: unknown) => {
        if (!(error instanceof OwnerGoneError)) return false
        const lateMs = performance.now() - renewedMs
        lossReason ??=
          lateMs < timeouts.expiryMs
            ? error.message
            : `the Job that owns the trial's objects expired: it was not renewed for ${Math.round(lateMs / 1000)} s (the API server may have been unreachable, or this machine suspended)`
        return false
      },
    )
  const pause = (ms: number) =>
    sleep(ms, undefined, { signal: ended.signal, ref: false }).catch(() => {}) // ended: the loop checks it
  const renewals = (async () => {
    await pause(timeouts.renewMs)
    // Retry failed renewals until the lease expires.
    while (!ended.signal.aborted && lossReason === undefined)
      await pause((await renew()) ? timeouts.renewMs : timeouts.retryMs)
  })()
  return {
    owner,
    get lossReason() {
      return lossReason
    },
    renew: async () => {
      await renew()
    },
    end: async () => {
      ended.abort()
      await renewals
    },
  }
}

/** The lease no longer belongs to this tuner. */
class OwnerGoneError extends Error {}

const ownerRemovedMessage =
  "another program removed the Job that owns the trial's objects (perhaps tune clean)"

interface OwnerJob {
  readonly metadata: { readonly deletionTimestamp?: string }
}

/**
 * Postpones the removal of the owner.
 * @param lifetimeMs its lifetime since creation
 */
async function extendOwner(api: Api, { name, uid }: Owner, lifetimeMs: number): Promise<void> {
  const body = {
    metadata: { uid },
    spec: { ttlSecondsAfterFinished: Math.ceil(lifetimeMs / 1000) },
  }
  const job = await api
    .request<OwnerJob>('PATCH', `${getJobsPath(api)}/${name}`, { body, once: true })
    .catch((error: unknown) => {
      if (error instanceof ApiError && (error.status === 404 || error.status === 409))
        throw new OwnerGoneError(ownerRemovedMessage)
      throw error
    })
  if (job.metadata.deletionTimestamp !== undefined) throw new OwnerGoneError(ownerRemovedMessage)
}

/**
 * Creates the Job that owns every object of an experiment: deleting it deletes them. It requests no
 * pods, so it completes at once.
 */
function createOwnerJob(
  { experimentId, image, overlay }: Omit<LeaseOptions, 'api'>,
  name: string,
  lifetimeMs: number,
): Json {
  const labels = createLabels(experimentId, 'experiment')
  const containers = [{ name: loadContainer, image, args: ['--version'] }]
  const spec = mergeOverlay(
    mergeOverlay(
      mergeOverlay(createOwnImageSpec(loadContainer), { restartPolicy: 'Never', containers }),
      overlay?.spec,
    ),
    // The load generator's overlay may request more; this Job needs nothing.
    { containers: [{ name: loadContainer, resources: ownerJobResources }] },
  )
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, labels },
    spec: {
      parallelism: 0,
      completions: 0,
      backoffLimit: 0,
      ttlSecondsAfterFinished: Math.ceil(lifetimeMs / 1000),
      template: { metadata: { labels: { ...overlay?.metadata?.labels, ...labels } }, spec },
    },
  }
}

const ownerJobResources = {
  requests: { cpu: '10m', memory: '32Mi' },
  limits: { cpu: '10m', memory: '32Mi' },
}
