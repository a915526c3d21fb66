import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import type { FleetPlan } from '../../../../reports/fleet/fleet-plan.ts'
import { checkManifests } from '../../../../reports/specs/validate.contract.ts'
import { defaultPriceBook } from '../../../../trials/prices/book.ts'
import { readFleetFile } from './fleet-file.ts'
import { renderFleetFiles } from './fleet-files.ts'

test('models that share a GPU by MPS have one claim on it, and each has its limits', async () => {
  const models = ['a', 'b'].map(
    (name) => `${name}: {table: a.csv, demand: 20, slo: 1s, image: "x:1"}`,
  )
  const path = join(mkdtempSync(join(tmpdir(), 'mps-claims-')), 'fleet.yaml')
  writeFileSync(path, `gpus: {T4: {mps: true}}\nmodels: {${models.join(', ')}}\n`)
  const file = readFleetFile(path, defaultPriceBook)
  rmSync(dirname(path), { recursive: true })
  const on = (share: number, memoryMiB: number) => ({
    ...{
      gpu: 'T4',
      slice: `${share}%`,
      share: share / 100,
      gpus: 1,
      rateRps: 9,
      latencyMs: 20,
      memoryMiB,
      label: '',
    },
    row: { line: 2, values: { batchSize: '8' } },
  })
  const [half, less] = [on(50, 3000), on(40, 2000)]
  const content = {
    kind: 'T4',
    slots: [
      { slice: '50%', model: 'a', segment: half },
      { slice: '40%', model: 'b', segment: less },
    ],
  }
  const own = {
    kind: 'T4',
    slots: [
      {
        slice: 'whole',
        model: 'a',
        segment: { ...half, slice: 'whole', share: undefined, rateRps: 18 },
      },
    ],
  }
  const plan = {
    atPeaks: { gpus: [content, own, content], pricePerHour: 1, boundPerHour: 1 },
    hoursRps: file.models.map(() => Array<number>(24).fill(5)),
  } as unknown as FleetPlan
  const sources = file.models.map((entry) => ({ entry, source: { segments: [] } }))
  const { files, skipped } = await renderFleetFiles(plan, file, sources, 'kubernetes')
  expect(skipped).toEqual([])
  expect(files.map(({ path }) => path)).toEqual([
    ...['a-t4', 'a-t4-50', 'b-t4-40', 'a-t4-50-2', 'b-t4-40-2'].map((name) =>
      join('models', `${name}.yaml`),
    ),
    ...[1, 2].map((gpu) => join('shared', `shared-${gpu}-t4.yaml`)),
  ])
  const { objects, problems } = checkManifests(files.map(({ text }) => text).join('---\n'))
  expect(problems).toEqual([])
  type Deployed = {
    spec: {
      replicas: number
      template: {
        spec: {
          resourceClaims?: { resourceClaimName: string }[]
          containers: { env: { name: string; value: string }[] }[]
        }
      }
    }
  }
  const claimed = objects
    .filter(({ kind }) => kind === 'Deployment')
    .map((one) => {
      const { replicas, template } = (one as unknown as Deployed).spec
      const bounds = template.spec.containers[0]!.env.filter(({ name }) =>
        name.startsWith('CUDA_MPS'),
      ).map(({ value }) => value)
      return [replicas, template.spec.resourceClaims?.[0]?.resourceClaimName, bounds]
    })
  // The GPU's 15 GiB, three parts to two as they need.
  expect(claimed).toEqual([
    [1, undefined, []],
    ...['shared-1-t4', 'shared-2-t4'].flatMap((claim) => [
      [1, claim, ['50', '0=9216M']],
      [1, claim, ['40', '0=6144M']],
    ]),
  ])
  const claims = objects.filter(({ kind }) => String(kind).startsWith('ResourceClaim'))
  expect(claims.map(({ kind, metadata }) => [kind, metadata])).toEqual(
    [1, 2].map((gpu) => ['ResourceClaim', { name: `shared-${gpu}-t4` }]),
  )
  expect(claims[0]!.spec).toMatchObject({
    devices: {
      config: [
        {
          opaque: {
            driver: 'gpu.nvidia.com',
            parameters: { kind: 'GpuConfig', sharing: { strategy: 'MPS' } },
          },
        },
      ],
    },
  })
  expect(files[1]!.text).toContain(
    'through the claim shared-1-t4 in shared/: MPS limits each process',
  )
  // 18 of 36 req/s are carried by the one on a GPU of its own.
  expect(files[1]!.text).toContain('# Route 25 % of the requests of a to these replicas')
  expect(files[5]!.text).toContain('a-t4-50, b-t4-40 share a T4 by MPS')
  expect((await renderFleetFiles(plan, file, sources, 'kserve')).skipped).toEqual([])
})
