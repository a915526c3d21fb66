import { expect, test } from 'vitest'
import { gpuCatalogue } from '../devices/catalogue.ts'
import { resourcesOf } from '../resources.ts'
import { defaultPriceBook, pricePerHour } from './book.ts'
import { instanceNamed, instances, listedAt } from './instances.ts'
import { parsePriceBook } from './parse-book.ts'
import { providerBook, providerNames, unknownRatesHint } from './providers.ts'

test('price = share of the GPU + cores + memory', () => {
  const quarter = resourcesOf({ cpuCores: 2, memoryMiB: 4096, gpu: 'T4', gpuMemoryPercent: 25 })
  expect(pricePerHour(quarter, defaultPriceBook)).toBeCloseTo(0.35 / 4 + 2 * 0.031611 + 4 * 0.004237)
})

test('list prices rebuild the instances they came from', () => {
  const price = (gpu: string, cpuCores: number, gib: number) =>
    pricePerHour(resourcesOf({ gpu, cpuCores, memoryMiB: gib * 1024 }), defaultPriceBook)
  expect(price('T4', 4, 16) / 0.526).toBeCloseTo(1, 1) // g4dn.xlarge
  expect(price('L4', 4, 16) / 0.8048).toBeCloseTo(1, 1) // g6.xlarge
  expect(price('H100', 16, 256) / 6.88).toBeCloseTo(1, 1) // p5.4xlarge
})

test('whole GPUs are paid as often as there are, shares as far as they go, cores and memory as they are', () => {
  const book = {
    name: 'round',
    currency: 'USD',
    gpus: { T4: { perHour: 8, source: '' } },
    vcpu: { perHour: 0.1, source: '' },
    memoryGiB: { perHour: 0.01, source: '' },
  }
  const base = { cpuCores: 4, memoryMiB: 2048, gpus: 0, gpuShare: 0 }
  expect(pricePerHour(base, book)).toBeCloseTo(0.42, 12)
  expect(pricePerHour({ ...base, gpu: 'T4', gpus: 4, gpuShare: 1 }, book)).toBeCloseTo(32.42, 12)
  expect(pricePerHour({ ...base, gpu: 'T4', gpus: 1, gpuShare: 0.25 }, book)).toBeCloseTo(2.42, 12)
})

test('every priced GPU is in the catalogue', () => {
  const names = gpuCatalogue.map((g) => g.name)
  expect(Object.keys(defaultPriceBook.gpus).filter((g) => !names.includes(g))).toEqual([])
})

test('an unpriced GPU says how to give a price', () => {
  expect(() => pricePerHour(resourcesOf({ gpu: 'RTX-4090' }), defaultPriceBook)).toThrow(/no price for the GPU RTX-4090.*--prices FILE/)
})

test('a book of the user adds to or replaces the list prices', () => {
  const added = parsePriceBook('gpus:\n  rtx 4090: 0.44\n  T4: 0.2\nvcpu: 0.02\n', 'mine.yaml')
  expect(added.gpus['RTX-4090']).toEqual({ perHour: 0.44, source: 'mine.yaml' })
  expect(added.gpus.T4!.perHour).toBe(0.2)
  expect(added.gpus.V100).toEqual(defaultPriceBook.gpus.V100)
  expect(added.vcpu.perHour).toBe(0.02)
  const own = parsePriceBook('extends: nothing\ncurrency: EUR\nvcpu: 0.02\nmemoryGiB: 0.003\ngpus: {L4: 0.5}', 'mine.yaml')
  expect(Object.keys(own.gpus)).toEqual(['L4'])
  expect(own.currency).toBe('EUR')
})

test('what a book leaves out keeps the list price; what it gives has its name and source', () => {
  const memory = parsePriceBook('memoryGiB: 0.01\nname: ours\nsource: contract 7\n', 'mine.yaml')
  expect(memory).toMatchObject({ name: 'ours', currency: 'USD', vcpu: defaultPriceBook.vcpu })
  expect(memory.memoryGiB).toEqual({ perHour: 0.01, source: 'contract 7' })
  const unnamed = parsePriceBook('vcpu: 0.02\n', 'mine.yaml')
  expect(unnamed).toMatchObject({ name: 'mine.yaml', memoryGiB: defaultPriceBook.memoryGiB, gpus: defaultPriceBook.gpus })
  expect(unnamed.vcpu).toEqual({ perHour: 0.02, source: 'mine.yaml' })
})

test('prices in another currency stand beside no list prices', () => {
  expect(() => parsePriceBook('currency: EUR\nvcpu: 0.02\n', 'p.yaml')).toThrow(
    /p.yaml:1: currency: list prices are in USD; say 'extends: nothing'/,
  )
  expect(parsePriceBook('currency: USD\nvcpu: 0.02\n', 'p.yaml').currency).toBe('USD')
})

test('a price that is missing is wrong input', () => {
  try {
    pricePerHour(resourcesOf({ gpu: 'RTX-4090' }), defaultPriceBook)
    expect.unreachable()
  } catch (error) {
    expect(error).toMatchObject({ name: 'PriceError', exitCode: 2 })
  }
})

test('every mistake is told at once, with its line', () => {
  const text = 'gpus:\n  T4: -1\n  V1000: 2\n\nvcpuu: 0.02\nmemoryGiB: cheap\n'
  expect(() => parsePriceBook(text, 'p.yaml')).toThrow()
  try {
    parsePriceBook(text, 'p.yaml')
  } catch (error) {
    const lines = (error as Error).message.split('\n')
    expect(lines).toContain('p.yaml:2: gpus.T4: expected a price of 0 or more, got -1')
    expect(lines).toContain("p.yaml:5: unknown key 'vcpuu', did you mean vcpu?")
    expect(lines).toContain('p.yaml:6: memoryGiB: expected a price per hour, got "cheap"')
  }
  expect(() => parsePriceBook('gpus: {V1000: 2}', 'p.yaml')).toThrow(/p.yaml:1: gpus.V1000: unknown GPU 'V1000'; did you mean V100/)
  expect(() => parsePriceBook('extends: nothing', 'p.yaml')).toThrow(/vcpu: needed.*\n.*memoryGiB: needed/)
  expect(() => parsePriceBook('gpus: [', 'p.yaml')).toThrow(/^p.yaml:1: /)
})

test('one table: the instance that a GPU’s price is from comes back from its GPUs, cores and memory', () => {
  for (const provider of providerNames) {
    const book = providerBook(provider)!
    const sold = Object.entries(book.gpus).filter(([, { source }]) => !source.startsWith('accelerator'))
    expect(sold.length, provider).toBeGreaterThan(2)
    for (const [gpu, { source }] of sold) {
      const instance = instanceNamed(source.slice(0, source.indexOf(',')))
      const { gpus, vcpus, memoryGiB, onDemandPerHour, reservedPerHour } = instance
      expect(instance.gpu).toBe(gpu)
      const rebuilt = pricePerHour({ gpu, gpus, gpuShare: 1, cpuCores: vcpus, memoryMiB: memoryGiB * 1024 }, book)
      // A GPU's price has four digits.
      expect(Math.abs(rebuilt - (provider === 'aws-reserved' ? reservedPerHour! : onDemandPerHour)), `${provider} ${gpu}`).toBeLessThan(
        1e-3,
      )
    }
  }
})

test('every instance is sold once, by a list with place and date, no dearer committed than on demand', () => {
  expect(new Set(instances.map(({ name }) => name)).size).toBe(instances.length)
  const catalogued = new Set(gpuCatalogue.map(({ name }) => name))
  for (const { name, cloud, gpu, source, onDemandPerHour, reservedPerHour = 0 } of instances) {
    expect(catalogued, name).toContain(gpu)
    expect(source).toBe(listedAt[cloud as keyof typeof listedAt])
    expect(source).toMatch(/20\d\d/)
    expect(reservedPerHour, name).toBeLessThan(onDemandPerHour)
  }
  expect(() => instanceNamed('g4dn.tiny')).toThrow(/no instance 'g4dn.tiny'/)
})

test('a provider’s book: every price has its place and date', () => {
  const known = new Set(gpuCatalogue.map(({ name }) => name))
  for (const provider of providerNames) {
    const { name, gpus } = providerBook(provider)!
    expect(name).toMatch(/20\d\d/)
    for (const [gpu, { perHour, source }] of Object.entries(gpus)) {
      expect(known, gpu).toContain(gpu)
      expect(perHour, `${provider} ${gpu}`).toBeGreaterThan(0.1)
      expect(source, `${provider} ${gpu}`).toMatch(/20\d\d/)
    }
  }
  expect(providerBook('constructor')).toBeUndefined()
})

test('the built-in list has AWS’s A100s: GCP’s beside AWS’s other GPUs were two thirds too dear', () => {
  for (const gpu of ['T4', 'V100', 'A10G', 'A100-40GB', 'A100-80GB', 'L4', 'L40S', 'H100', 'H200', 'B200'])
    expect(defaultPriceBook.gpus[gpu]!.perHour / providerBook('aws')!.gpus[gpu]!.perHour, gpu).toBeCloseTo(1, 1)
})

test('a book may start from a provider’s', () => {
  const mine = parsePriceBook('extends: gcp\ngpus: { T4: 0.2 }', 'mine.yaml')
  expect(mine.gpus.T4!.perHour).toBe(0.2)
  expect(mine.gpus.L4).toEqual(providerBook('gcp')!.gpus.L4)
  expect(mine.vcpu).toEqual(providerBook('gcp')!.vcpu)
  expect(() => parsePriceBook('extends: gpc', 'mine.yaml')).toThrow(/extends/)
})

test('prices that nobody lists are asked of the user, by the provider that the file may start from', () => {
  expect(unknownRatesHint('gcp-spot')).toMatch(
    /no spot prices of gcp: they move by the hour; give yours with --prices FILE: {2}extends: gcp, source/,
  )
  expect(unknownRatesHint('azure-committed')).toMatch(/no committed prices of azure: no dated list/)
  for (const name of ['aws-reserved', 'gcp', 'our-spot', './aws-spot.yaml']) expect(unknownRatesHint(name)).toBeUndefined()
})
