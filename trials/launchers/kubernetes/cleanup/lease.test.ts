import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Api } from '../api/api.ts'
import { FakeApiServer } from '../testing/fake-api-server.ts'
import { restrictedViolations } from '../testing/restricted.ts'
import { ExperimentLease, type LeaseOptions } from './lease.ts'

let fake: FakeApiServer
let api: Api
const taken: ExperimentLease[] = []
beforeEach(async () => {
  fake = new FakeApiServer()
  await fake.start()
  api = await fake.api()
})
afterEach(async () => {
  fake.fault = undefined
  await Promise.all(taken.splice(0).map((lease) => lease.end()))
  await fake.stop()
})

const never = new AbortController().signal
const leaseOf = (change: Partial<LeaseOptions> = {}) => {
  const lease = new ExperimentLease({
    api,
    experimentId: 'e',
    image: 'i',
    timeouts: { expiryMs: 300, renewMs: 20, retryMs: 20 },
    ...change,
  })
  taken.push(lease)
  return lease
}
interface Spec {
  readonly holderIdentity: string
  readonly renewTime: string
  readonly leaseTransitions: number
}
const specOf = () => (fake.objects.leases.get('tune-e') as { spec?: Spec } | undefined)?.spec
const setSpec = (change: Partial<Spec>) => {
  const stored = fake.objects.leases.get('tune-e')!
  fake.objects.leases.set('tune-e', { ...stored, spec: { ...specOf(), ...change } })
}
interface Job {
  readonly spec: {
    readonly ttlSecondsAfterFinished: number
    readonly template: { readonly spec: Parameters<typeof restrictedViolations>[0] }
  }
}
const jobs = () => [...fake.objects.jobs.values()] as unknown as Job[]
const eventually = async (holds: () => boolean): Promise<void> => {
  const until = performance.now() + 60_000
  while (!holds()) {
    if (performance.now() > until) throw new Error('waited a minute in vain')
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
const elsewhere = 'another-host/7/boot/1'

test('an interrupt between the Job and the answer leaves no Job behind', async () => {
  const interrupted = new AbortController()
  fake.fault = ({ method, path }, response) => {
    if (method !== 'POST' || !path.endsWith('/jobs')) return false
    // It is made, and nobody hears of it.
    fake.fault = undefined
    response.end = () => response
    fake.jobMade = () => interrupted.abort(new Error('interrupted'))
    return false
  }
  await expect(leaseOf().acquireOwner(interrupted.signal)).rejects.toThrow('interrupted')
  expect(jobs()).toEqual([])
})

test('renewals move the lease and the end of a Job without pods that satisfies the restricted profile', async () => {
  // Whole seconds are all that it has.
  const owner = await leaseOf({
    timeouts: { expiryMs: 1_000, renewMs: 20, retryMs: 20 },
  }).acquireOwner(never)
  const [job] = jobs()
  expect(owner).toEqual({ name: expect.stringMatching(/^tune-e-lease-/), uid: expect.any(String) })
  expect(job).toMatchObject({
    spec: { parallelism: 0, completions: 0, ttlSecondsAfterFinished: 1 },
  })
  expect(restrictedViolations(job!.spec.template.spec)).toEqual([])
  expect(fake.objects.leases.get('tune-e')!.metadata).toMatchObject({
    ownerReferences: [{ kind: 'Job', ...owner }],
  })
  const before = specOf()!.renewTime
  await eventually(
    () => jobs()[0]!.spec.ttlSecondsAfterFinished > 1 && specOf()!.renewTime > before,
  )
})

test('a hundred that ask at once get one owner, and its end ends the renewals', async () => {
  const lease = leaseOf()
  const owners = await Promise.all(Array.from({ length: 100 }, () => lease.acquireOwner(never)))
  expect(new Set(owners.map(({ uid }) => uid)).size).toBe(1)
  expect(await lease.end()).toBe(true)
  const before = fake.seen.length
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(fake.seen.length).toBe(before)
})

test('an owner that was lost is replaced, and what is ended then is not removed as if it were ours', async () => {
  const lease = leaseOf()
  const first = await lease.acquireOwner(never)
  fake.remove('jobs', first.name)
  await eventually(() => fake.seen.at(-1)!.includes(first.name))
  let second = first
  while (second.uid === first.uid) {
    second = await lease.acquireOwner(never)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  expect(jobs().length).toBe(1)
  expect(specOf()!.leaseTransitions).toBe(1)
})

test('a lease whose holder renews it is not taken', async () => {
  await leaseOf().acquireOwner(never)
  await taken.splice(0)[0]!.end()
  setSpec({ holderIdentity: elsewhere })
  const renewing = setInterval(() => setSpec({ renewTime: new Date().toISOString() }), 30)
  try {
    await expect(leaseOf().acquireOwner(never)).rejects.toMatchObject({
      name: 'LaunchError',
      final: 'experiment',
      message: expect.stringContaining(elsewhere),
    })
  } finally {
    clearInterval(renewing)
  }
  expect(specOf()!.holderIdentity).toBe(elsewhere)
  // The Job that the holder's lease belongs to is all there is.
  expect(jobs().length).toBe(1)
})

test('one that is not renewed is taken once its time is up, one of a process that is gone at once', async () => {
  await leaseOf().acquireOwner(never)
  await taken.splice(0)[0]!.end()
  setSpec({ holderIdentity: elsewhere })
  const startedMs = performance.now()
  const lease = leaseOf()
  await lease.acquireOwner(never)
  expect(performance.now() - startedMs).toBeGreaterThan(299)
  expect(specOf()).toMatchObject({
    leaseTransitions: 1,
    holderIdentity: expect.not.stringContaining(elsewhere),
  })
  const { host, pid } = /^(?<host>[^/]*)\/(?<pid>\d+)/.exec(specOf()!.holderIdentity)!.groups as {
    host: string
    pid: string
  }
  await lease.end()
  setSpec({ holderIdentity: `${host}/${pid}/an earlier boot/1` })
  await leaseOf({ timeouts: { expiryMs: 3_600_000 } }).acquireOwner(never)
  expect(specOf()!.leaseTransitions).toBe(2)
})

test('who loses the lease to another tuner knows it', async () => {
  const lease = leaseOf()
  const { name } = await lease.acquireOwner(never)
  setSpec({ holderIdentity: elsewhere })
  // It stops renewing what is not its own.
  let renewals = -1
  const count = () => fake.seen.filter((one) => one.startsWith('PATCH')).length
  while (renewals !== count()) {
    renewals = count()
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
  expect(await lease.end()).toBe(false)
  expect([...fake.objects.jobs.keys()]).not.toContain(name)
  expect(specOf()!.holderIdentity).toBe(elsewhere)
})

test('renewals that fail for a while cost nothing', async () => {
  const lease = leaseOf({ timeouts: { expiryMs: 60_000, renewMs: 20, retryMs: 20 } })
  const owner = await lease.acquireOwner(never)
  let failed = 0
  fake.fault = ({ method }, response) => {
    if (method !== 'PATCH' || failed >= 5) return false
    failed++
    response.writeHead(503).end('{}')
    return true
  }
  await eventually(() => failed === 5)
  const before = specOf()!.renewTime
  await eventually(() => specOf()!.renewTime > before)
  expect(await lease.acquireOwner(never)).toEqual(owner)
})
