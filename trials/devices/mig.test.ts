import { expect, test } from 'vitest'
import { findGpu, gpuCatalogue } from './catalogue.ts'
import { computePaidFraction, findMigProfile, listMigProfiles } from './mig.ts'

test('only real profiles exist', () => {
  expect(listMigProfiles(findGpu('A100-40GB')).map((p) => p.name)).toEqual([
    '1g.5gb',
    '1g.10gb',
    '2g.10gb',
    '3g.20gb',
    '4g.20gb',
    '7g.40gb',
  ])
  expect(listMigProfiles(findGpu('T4'))).toEqual([])
  expect(() => findMigProfile(findGpu('T4'), '1g.5gb')).toThrow(
    /T4 has no MIG profiles; GPUs with MIG: A30/,
  )
  expect(() => findMigProfile(findGpu('A100-80GB'), '1g.5gb')).toThrow(
    /A100-80GB has no MIG profile '1g.5gb'; it has 1g.10gb, 1g.20gb, /,
  )
})

test('a slice pays for what it takes from others', () => {
  const a100 = findGpu('A100-80GB')
  expect(computePaidFraction(findMigProfile(a100, '1g.10gb'))).toBeCloseTo(1 / 7)
  expect(computePaidFraction(findMigProfile(a100, '1g.20gb'))).toBe(1 / 4)
  expect(computePaidFraction(findMigProfile(a100, '3g.40gb'))).toBe(1 / 2)
  expect(computePaidFraction(findMigProfile(a100, '7g.80gb'))).toBe(1)
})

test('no profile claims more than its GPU has', () => {
  for (const { name } of gpuCatalogue)
    for (const slice of listMigProfiles(findGpu(name))) {
      expect(slice.memoryMiB, `${name} ${slice.name}`).toBeLessThanOrEqual(
        findGpu(name).memoryGiB * 1024 * slice.memoryFraction,
      )
      expect(slice.multiprocessors, slice.name).toBeLessThanOrEqual(findGpu(name).multiprocessors)
      expect(slice.maxInstances * slice.memoryFraction, slice.name).toBeLessThanOrEqual(1)
    }
})

test('names as the driver writes them: media engines beside, and compute instances within a slice', () => {
  const a100 = findGpu('A100-80GB')
  expect(findMigProfile(a100, '1g.10gb+me')).toEqual({
    ...findMigProfile(a100, '1g.10gb'),
    name: '1g.10gb+me',
  })
  const half = findMigProfile(a100, '1c.2g.20gb')
  expect(half).toMatchObject({ name: '1c.2g.20gb', multiprocessors: 14 })
  expect(computePaidFraction(half)).toBeCloseTo(
    computePaidFraction(findMigProfile(a100, '2g.20gb')) / 2,
  )
  const gb200 = findGpu('GB200')
  for (const [told, known] of [
    ['7g.189gb', '7g.186gb'],
    ['3g.95gb', '3g.93gb'],
  ] as const)
    expect(findMigProfile(gb200, told)).toEqual({ ...findMigProfile(gb200, known), name: told })
  // Of a GB300 with less memory, as in a DGX Station.
  expect(() => findMigProfile(findGpu('GB300'), '3g.126gb')).toThrow(
    /no MIG profile '3g.126gb'; it has 1g.35gb, /,
  )
  for (const name of ['3c.2g.20gb', '1c.9g.90gb', 'c.1g.10gb'])
    expect(() => findMigProfile(a100, name)).toThrow(/no MIG profile/)
})
