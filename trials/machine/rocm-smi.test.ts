import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { listAmdGpus, parseAmdGpus, readAmdUse } from './rocm-smi.ts'
import { standIn } from './testing/stand-in.ts'

// In the forms of ROCm 6.2 ('Card Series') and 5.7 ('Card series').
const six = `{"card0": {"Unique ID": "0x5d9b", "VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)": "297361408", "Card Series": "AMD Instinct MI300X", "Card Model": "0x74a1"}, "system": {"Driver version": "6.10.5"}}`
const five = six.replace('Card Series', 'Card series')

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-rocm-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('an MI300X, by either release, with warnings before the document', () => {
  for (const text of [six, five, `WARNING: AMD GPU device(s) is/are in a low-power state.\n${six}`])
    expect(parseAmdGpus(text)).toEqual([
      {
        vendor: 'amd',
        index: 0,
        uuid: 'AMD-0',
        runtimeUuid: 'GPU-0000000000005d9b',
        name: 'AMD Instinct MI300X',
        memoryMiB: 196592,
        usedMemoryMiB: 284,
        driver: '6.10.5',
        computeMode: 'Default',
        migEnabled: false,
        migDevices: [],
      },
    ])
  expect(parseAmdGpus('')).toEqual([])
})

test('no rocm-smi: no GPUs; one that fails says why', async () => {
  expect(await listAmdGpus(join(folder, 'absent'))).toEqual({ gpus: [] })
  await expect(
    listAmdGpus(
      standIn(
        folder,
        'broken',
        'echo "Driver not initialized (amdgpu not found in modules)" >&2; exit 2',
      ),
    ),
  ).rejects.toThrow('rocm-smi failed: Driver not initialized')
})

test('two dies of one package are two GPUs, though they tell one unique ID', () => {
  const die = (more = '') =>
    `{"Unique ID": "0x719d230578348e8c", "VRAM Total Memory (B)": "68702699520", "Card series": "AMD INSTINCT MI250 (MCM) OAM AC MBA", "Card model": "0x0b0c"${more}}`
  const found = parseAmdGpus(`{"card0": ${die()}, "card1": ${die()}}`)
  expect(found.map(({ index, uuid, memoryMiB }) => [index, uuid, memoryMiB])).toEqual([
    [0, 'AMD-0', 65520],
    [1, 'AMD-1', 65520],
  ])
})

test('one that has no unique ID has no UUID for its runtimes', () => {
  for (const id of ['N/A', '0x0', ''])
    expect(parseAmdGpus(six.replace('0x5d9b', id))[0]!.runtimeUuid).toBeUndefined()
})

test('names: the board within those of the chip, and what stands there where a release knows none', () => {
  const named = (figures: string) => parseAmdGpus(`{"card0": {${figures}}}`)[0]!.name
  expect(named('"Card series": "Navi 31 [Radeon Pro W7900]"')).toBe('Radeon Pro W7900')
  expect(named('"Card series": "Arcturus GL-XL [AMD Instinct MI100]"')).toBe('AMD Instinct MI100')
  expect(named('"Card Series": "N/A", "Device Name": "Phoenix3", "Card Model": "0x1900"')).toBe(
    'Phoenix3',
  )
  expect(named('"Card series": "0x738c", "Card model": "0x0c34"')).toBe('0x0c34')
  expect(named('"GPU use (%)": "3"')).toBe('AMD GPU')
})

test('use of a card', async () => {
  const use = standIn(
    folder,
    'use',
    `echo '{"card1": {"GPU use (%)": "40", "VRAM Total Used Memory (B)": "1048576000"}}'`,
  )
  expect(await readAmdUse(1, use)).toEqual({ memoryMiB: 1000, utilization: 0.4 })
  expect(await readAmdUse(0, use)).toEqual({ memoryMiB: undefined, utilization: undefined })
})

test('power under the names of either release; what a card does not tell is not told', async () => {
  const telling = (figures: string) => standIn(folder, 'power', `echo '{"card0": {${figures}}}'`)
  expect(
    (await readAmdUse(0, telling('"Current Socket Graphics Package Power (W)": "141.0"'))).gpuWatts,
  ).toBe(141)
  expect(
    (await readAmdUse(0, telling('"Average Graphics Package Power (W)": "88.0"'))).gpuWatts,
  ).toBe(88)
  expect(
    await readAmdUse(0, telling('"Average Graphics Package Power (W)": "N/A (Secondary die)"')),
  ).toEqual({})
  const silent = telling(
    '"GPU use (%)": "N/A", "VRAM Total Used Memory (B)": "N/A", "Current Socket Graphics Package Power (W)": "N/A"',
  )
  expect(await readAmdUse(0, silent)).toEqual({})
})

test('words around the document are no part of it, and one that is broken is said to be', () => {
  expect(
    parseAmdGpus(`WARNING: {low power}\n${six}\n====== End of ROCm SMI Log ======\n`),
  ).toHaveLength(1)
  expect(() => parseAmdGpus('{"card0": {"Unique ID": }}')).toThrow(
    /^rocm-smi --json cannot be read: /,
  )
  expect(parseAmdGpus(six.replace('"206141652992"', '"N/A"'))).toMatchObject([
    { memoryMiB: undefined },
  ])
})
