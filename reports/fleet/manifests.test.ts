/** Manifests of a fleet: cuts of nodes, deployments, replicas by hour. */
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { renderSpec } from '../specs/index.ts'
import { checkManifests } from '../specs/validate.contract.ts'
import { planNodes, renderMigLayouts } from './node-layouts.ts'
import { type PackedGpu, type Segment, wholeGpu } from './packing.ts'
import { listPlacements } from './placements.ts'
import { describeTableServing } from './table-serving.ts'

const segment = (slice: string, rateRps: number, gpus = 1): Segment => ({
  gpu: 'A100-80GB',
  slice,
  gpus,
  rateRps,
  label: 'batchSize 8',
  row: { line: 3, values: { batchSize: '8' } },
})
const [small, half] = [segment('1g.10gb', 10), segment('3g.40gb', 40)]
const gpuOf = (...slots: PackedGpu['slots']): PackedGpu => ({ kind: 'A100-80GB', slots })
const sevenths = gpuOf(
  ...Array.from({ length: 7 }, () => ({ slice: '1g.10gb', model: 'a', segment: small })),
)
const halves = gpuOf({ slice: '3g.40gb', model: 'a', segment: half }, { slice: '3g.40gb' })
const uncut = gpuOf({ slice: wholeGpu, model: 'b', segment: segment(wholeGpu, 100, 2) })

test('every slot of a packing is in one placement, and the shares of a model sum to one', () => {
  const placements = listPlacements([sevenths, sevenths, halves, uncut, uncut], () =>
    Array(24).fill(1),
  )
  expect(placements.map(({ model, replicas }) => [model, replicas])).toEqual([
    ['a', 14],
    ['a', 1],
    ['b', 1],
  ])
  expect(placements.map(({ share }) => share)).toEqual([140 / 180, 40 / 180, 1])
})

test('each hour has the replicas that its requests need, at least one, and those spare at the peak', () => {
  const hours = Array.from({ length: 24 }, (_, hour) => (hour < 8 ? 0 : hour < 20 ? 170 : 90))
  const [a, b] = listPlacements([sevenths, sevenths, halves], () => hours)
  expect(a!.byHour).toEqual([...Array(8).fill(1), ...Array(12).fill(14), ...Array(4).fill(7)])
  expect(b!.byHour).toBeUndefined()
  // With nine at the peak, five of fourteen are spare at every hour.
  const [spared] = listPlacements([sevenths, sevenths], () => hours.map((rps) => rps / 2))
  expect(spared!.byHour).toEqual([...Array(8).fill(6), ...Array(12).fill(14), ...Array(4).fill(10)])
  for (const [i, rps] of hours.entries())
    expect(
      [a!, b!].every(
        ({ byHour, replicas, share, segment: { rateRps } }) =>
          (byHour?.[i] ?? replicas) * rateRps >= share * rps,
      ),
    ).toBe(true)
})

const plain = gpuOf({ slice: wholeGpu, model: 'b', segment: segment(wholeGpu, 100) })

test('nodes are filled with GPUs that are cut alike; the layouts have exactly the cuts of the packing', () => {
  const gpus = [sevenths, halves, sevenths, plain, sevenths, { ...plain, kind: 'L4' }]
  const layouts = planNodes(gpus, (kind) => (kind === 'L4' ? 1 : 2))
  expect(layouts.map(({ kind, config, nodes }) => [kind, config, nodes])).toEqual([
    ['A100-80GB', 'fleet-a100-80gb-1', 1],
    ['A100-80GB', 'fleet-a100-80gb-2', 1],
    ['A100-80GB', undefined, 1],
    ['L4', undefined, 1],
  ])
  const text = renderMigLayouts(layouts, () => 2)!
  const { objects, problems } = checkManifests(text)
  expect(problems).toEqual([])
  const { version, 'mig-configs': configs } = parse(
    (objects[0]!.data as Record<string, string>)['config.yaml']!,
  )
  expect(version).toBe('v1')
  expect(configs).toEqual({
    'all-disabled': [{ devices: 'all', 'mig-enabled': false }],
    'fleet-a100-80gb-1': [{ devices: 'all', 'mig-enabled': true, 'mig-devices': { '1g.10gb': 7 } }],
    'fleet-a100-80gb-2': [
      { devices: [0], 'mig-enabled': true, 'mig-devices': { '1g.10gb': 7 } },
      { devices: [1], 'mig-enabled': true, 'mig-devices': { '3g.40gb': 2 } },
    ],
  })
  expect(text).toContain(
    '#   1 node with A100-80GB: kubectl label node NODE nvidia.com/mig.config=fleet-a100-80gb-1 --overwrite',
  )
  expect(text).toContain(
    '#   1 node with A100-80GB, not partitioned: kubectl label node NODE nvidia.com/mig.config=all-disabled --overwrite',
  )
  const cut = layouts
    .flatMap(({ nodes, cuts }) =>
      Array(nodes).fill(cuts.flatMap(({ devices, slices }) => devices.flatMap(() => slices))),
    )
    .flat()
  expect(cut.sort()).toEqual(
    gpus
      .flatMap(({ slots }) => slots.flatMap(({ slice }) => (slice === wholeGpu ? [] : [slice])))
      .sort(),
  )
  expect(
    renderMigLayouts(
      planNodes([uncut], () => 1),
      () => 1,
    ),
  ).toBeUndefined()
})

test('a replica on several GPUs stays in one node, and single GPUs fill it', () => {
  const on = (gpus: number) =>
    gpuOf({ slice: wholeGpu, model: 'b', segment: segment(wholeGpu, 100, gpus) })
  const two = Array.from({ length: 4 }, () => on(2))
  const layouts = planNodes([sevenths, ...two, on(3), on(3), on(3), halves], () => 4)
  // Three and one cut in sevenths; two and two; one in halves.
  expect(
    layouts.map(({ nodes, cuts }) => [
      nodes,
      cuts.map(({ devices, slices }) => [devices.length, slices.length]),
    ]),
  ).toEqual([
    [
      1,
      [
        [3, 0],
        [1, 7],
      ],
    ],
    [1, [[4, 0]]],
    [1, [[1, 2]]],
  ])
})

test('the rest of a node that is not full stays whole', () => {
  const layouts = parse(
    (
      checkManifests(
        renderMigLayouts(
          planNodes([halves], () => 4),
          () => 4,
        )!,
      ).objects[0]!.data as Record<string, string>
    )['config.yaml']!,
  )
  expect(layouts['mig-configs']['fleet-a100-80gb-1']).toEqual([
    { devices: [0], 'mig-enabled': true, 'mig-devices': { '3g.40gb': 2 } },
    { devices: [1, 2, 3], 'mig-enabled': false },
  ])
})

const replica = (byHour?: readonly number[]) =>
  describeTableServing(
    {
      name: 'a A100 1g',
      model: 'a',
      table: 'a.csv',
      segment: small,
      headroom: 0.1,
      sloMs: 200,
      replicaPlan: {
        replicas: 14,
        ...(byHour && { byHour }),
        timezone: 'Europe/Berlin',
      },
    },
    { image: 'registry.example/a:1', port: 9000, health: '/healthz' },
  )
const manifestsOf = async (byHour?: readonly number[]) => {
  const { text } = (await renderSpec('kubernetes', replica(byHour)))[0]!
  const { objects, problems } = checkManifests(text)
  expect(problems).toEqual([])
  return {
    text,
    of: (kind: string) =>
      objects.find((object) => object.kind === kind) as
        | { metadata: { name: string }; spec: object }
        | undefined,
  }
}

test('a row of a table deploys the named image on its slice, with its columns, and claims no measurement', async () => {
  const { text, of } = await manifestsOf()
  expect(of('Deployment')).toMatchObject({
    metadata: { name: 'a-a100-1g' },
    spec: {
      replicas: 14,
      strategy: { rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } },
      template: {
        spec: {
          containers: [
            {
              image: 'registry.example/a:1',
              env: [{ name: 'BATCH_SIZE', value: '8' }],
              ports: [{ containerPort: 9000 }],
              readinessProbe: { httpGet: { path: '/healthz' } },
              resources: { limits: { 'nvidia.com/mig-1g.10gb': '1' } },
            },
          ],
        },
      },
    },
  })
  expect(of('HorizontalPodAutoscaler')).toBeUndefined()
  expect(of('ScaledObject')).toBeUndefined()
  expect(text).toContain(
    '# FIGURES ARE FROM ANOTHER SERVER THAN THIS DEPLOYS: a.csv, line 3 gives the rate of a replica',
  )
  expect(text).toContain('Written by tune from a.csv, line 3.')
  const served = (await renderSpec('kserve', replica())).map((file) => checkManifests(file.text))
  expect(served.flatMap(({ problems }) => problems)).toEqual([])
  expect(served[0]!.objects.find(({ kind }) => kind === 'InferenceService')).toMatchObject({
    metadata: { annotations: { 'serving.kserve.io/autoscalerClass': 'none' } },
    spec: {
      predictor: {
        minReplicas: 14,
        maxReplicas: 14,
        deploymentStrategy: { rollingUpdate: { maxSurge: 0 } },
      },
    },
  })
})

const cron = (start: string, end: string, desiredReplicas: string) => ({
  type: 'cron',
  metadata: { timezone: 'Europe/Berlin', start, end, desiredReplicas },
})

test('cron triggers scale the replicas by hours, over midnight too, and start them early', async () => {
  const { of } = await manifestsOf([
    ...Array(2).fill(14),
    ...Array(6).fill(1),
    ...Array(12).fill(7),
    ...Array(4).fill(14),
  ])
  expect(of('Deployment')!.spec).not.toHaveProperty('replicas')
  expect(of('ScaledObject')!.spec).toEqual({
    scaleTargetRef: { name: 'a-a100-1g' },
    minReplicaCount: 1,
    maxReplicaCount: 14,
    triggers: [cron('55 7 * * *', '0 20 * * *', '7'), cron('55 19 * * *', '0 2 * * *', '14')],
  })
})
