/** Whether a real cluster removes what tuners own that are gone, at whatever moment they went. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLabels, createOwnerReferences } from '../manifests/manifests.ts'
import { createNamespace, type TestNamespace, testImage, until } from '../testing/namespace.ts'
import { ExperimentLease } from './lease.ts'

let namespace: TestNamespace
beforeAll(async () => {
  namespace = await createNamespace()
})
afterAll(() => namespace?.remove())

const never = new AbortController().signal
const [expiryMs, renewMs] = [8_000, 2_000]
/** What controllers of a busy machine take on top. */
const controllersMs = 15_000

test('renewals that end at any moment of their cycle leave nothing, and go on leave everything', async () => {
  const { api, name } = namespace
  const leaseOf = (experimentId: string) =>
    new ExperimentLease({
      api,
      experimentId,
      image: testImage(),
      timeouts: { expiryMs, renewMs, retryMs: 500 },
    })
  const own = async (lease: ExperimentLease, experimentId: string) => {
    const owner = await lease.acquireOwner(never)
    const metadata = {
      name: `owned-${experimentId}`,
      labels: createLabels(experimentId, 'payload'),
      ownerReferences: createOwnerReferences(owner),
    }
    await api.request('POST', `/api/v1/namespaces/${name}/configmaps`, {
      body: { apiVersion: 'v1', kind: 'ConfigMap', metadata },
    })
  }
  const leftOf = async (experimentId: string) =>
    (await namespace.leftovers()).filter((object) =>
      [`owned-${experimentId}`, `tune-${experimentId}`].some((one) => object.includes(one)),
    )
  const lasting = leaseOf('lasting')
  await own(lasting, 'lasting')
  // The first deadline, and those after it, pass between these.
  const moments = [0, 1_000, 3_000, 7_500, 9_000, 13_000, 17_000, 21_000]
  const seconds = await Promise.all(
    moments.map(async (endsMs) => {
      const experimentId = `ends-${endsMs}`
      const lease = leaseOf(experimentId)
      await own(lease, experimentId)
      await sleep(endsMs)
      const endedMs = performance.now()
      // As a tuner that is killed: it removes nothing.
      await lease.end()
      await until(async () => (await leftOf(experimentId)).length === 0)
      return (performance.now() - endedMs) / 1000
    }),
  )
  console.info(`${seconds.map((each) => each.toFixed(1)).join(', ')} s until all was gone`)
  for (const each of seconds) expect(each).toBeLessThan((expiryMs + controllersMs) / 1000)
  expect((await leftOf('lasting')).sort()).toEqual([
    'configmaps/owned-lasting',
    expect.stringMatching(/^jobs\/tune-lasting-lease-/),
    'leases/tune-lasting',
  ])
  await lasting.end()
  await until(async () => (await namespace.leftovers()).length === 0)
})
