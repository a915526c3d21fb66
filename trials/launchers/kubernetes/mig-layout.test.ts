import type { V1Node } from '@kubernetes/client-node'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Api } from './api.ts'
import { cutNodes } from './mig-layout.ts'
import { FakeApiServer } from './testing/fake-api-server.ts'

let fake: FakeApiServer
let api: Api
beforeEach(async () => {
  fake = new FakeApiServer()
  await fake.start()
  api = await fake.api()
})
afterEach(async () => {
  api.close()
  await fake.stop()
})

const [config, state, before] = [
  'nvidia.com/mig.config',
  'nvidia.com/mig.config.state',
  'tune/mig-config-before',
]
const capable = {
  'nvidia.com/mig.capable': 'true',
  'nvidia.com/gpu.product': 'NVIDIA-A100-SXM4-40GB',
}
function node(
  name: string,
  labels: Record<string, string> = {},
  allocatable: Record<string, string> = { 'nvidia.com/gpu': '1' },
): void {
  fake.objects.nodes.set(name, {
    metadata: { name, labels: { ...capable, ...labels } },
    status: { allocatable },
  } as never)
}
const now = (name: string) => fake.objects.nodes.get(name) as unknown as V1Node

/** The MIG manager and the device plugin: they do what a label says, as soon as they see it. */
function managed(verdict: 'success' | 'failed' = 'success'): string[] {
  const told: string[] = []
  fake.fault = ({ method, path }) => {
    const name = path.split('/').at(-1)!
    if (method === 'PATCH')
      setImmediate(() => {
        const { metadata } = now(name)
        const layout = metadata!.labels![config!]!
        told.push(`${name} ${layout}`)
        const profile = layout.replace('all-', '')
        node(
          name,
          { ...metadata!.labels, [state!]: verdict },
          layout === 'all-disabled' ? undefined : { [`nvidia.com/mig-${profile}`]: '7' },
        )
        Object.assign(now(name).metadata!, { annotations: metadata!.annotations })
      })
    return false
  }
  return told
}
const soon = { timeoutMs: 5_000, offeredMs: 5_000, lookMs: 5 }

test('nodes are cut, and told at the end to be as they were', async () => {
  node('a', { [config!]: 'all-3g.20gb', [state!]: 'success' }, { 'nvidia.com/mig-3g.20gb': '2' })
  node('b')
  const told = managed()
  const cut = await cutNodes(api, { a: 'all-1g.5gb', b: 'all-2g.10gb' }, soon)
  expect(told).toEqual(['a all-1g.5gb', 'b all-2g.10gb'])
  expect(cut.notices[0]).toContain(
    'kubectl label node a nvidia.com/mig.config=all-3g.20gb --overwrite',
  )
  await cut.restore()
  await cut.restore()
  expect(told.slice(2)).toEqual(['a all-3g.20gb', 'b all-disabled'])
  expect(now('a').metadata!.annotations).not.toHaveProperty(before!)
})

test('a layout that was there already stays; one that a killed tuner left is taken back', async () => {
  const there = [
    { [config!]: 'all-1g.5gb', [state!]: 'success' },
    { 'nvidia.com/mig-1g.5gb': '7' },
  ] as const
  node('own', ...there)
  node('left', ...there)
  Object.assign(now('left').metadata!, { annotations: { [before!]: 'all-disabled' } })
  const told = managed()
  await (await cutNodes(api, { own: 'all-1g.5gb', left: 'all-1g.5gb' }, soon)).restore()
  expect(told.at(-1)).toBe('left all-disabled')
  expect(told).not.toContain('own all-disabled')
})

test('one node that fails to be cut takes the others back, with the reason', async () => {
  node('a')
  const told = managed('failed')
  await expect(cutNodes(api, { a: 'all-1g.5gb' }, soon)).rejects.toThrow(
    /node a: nvidia.com\/mig.config=all-1g.5gb failed/,
  )
  expect(told).toEqual(['a all-1g.5gb', 'a all-disabled'])
})

test('slices that the device plugin does not offer are not waited for for ever', async () => {
  node('a')
  fake.fault = ({ method }) => {
    if (method === 'PATCH')
      setImmediate(() => Object.assign(now('a').metadata!.labels!, { [state!]: 'success' }))
    return false
  }
  await expect(cutNodes(api, { a: 'all-1g.5gb' }, { ...soon, offeredMs: 20 })).rejects.toThrow(
    /offers no such slice/,
  )
})

test.each([
  ['no such node', () => {}, 'all-1g.5gb', /has no node a/],
  ['no such slice', () => node('a'), 'all-1g.18gb', /A100-40GB has no such slice; it has 1g\.5gb/],
  [
    'nobody who cuts',
    () => node('a', { 'nvidia.com/mig.capable': 'false' }),
    'all-1g.5gb',
    /nothing there cuts GPUs/,
  ],
  [
    'GPUs that are held',
    () => {
      node('a')
      const limits = { 'nvidia.com/gpu': '1' }
      const spec = { nodeName: 'a', containers: [{ name: 'c', resources: { limits } }] }
      fake.objects.pods.set('p', {
        metadata: { name: 'p', namespace: 'test' },
        spec,
        status: { phase: 'Running' },
      } as never)
    },
    'all-1g.5gb',
    /test\/p hold its GPUs/,
  ],
])('%s: nothing is changed', async (_, given, layout, said) => {
  given()
  await expect(cutNodes(api, { a: layout }, soon)).rejects.toThrow(said)
  expect(fake.seen.filter((one) => one.startsWith('PATCH'))).toEqual([])
})
