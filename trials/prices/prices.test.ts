import fc from 'fast-check'
import { expect, test } from 'vitest'
import { computeFleetPricePerHour, findCheapestBundles } from '../../search/replica-price.ts'
import { gpuCatalogue } from '../devices/catalogue.ts'
import { parseResources } from '../resources.ts'
import { reservedByCluster } from './allocatable.ts'
import { defaultPriceBook, listBundles, pricePerHour } from './book.ts'
import { findInstance, instances, listedAt } from './instances.ts'
import { type CommittedPrice, listOffers } from './offers.ts'
import { parsePriceBook } from './parse-book.ts'
import { explainUnknownRates, findProviderBook, providerNames } from './providers.ts'
import { countReplicasPerInstance, findCheapestInstance } from './whole-instances.ts'

test('price = share of the GPU + cores + memory', () => {
  const quarter = parseResources({ cpuCores: 2, memoryMiB: 4096, gpu: 'T4', gpuMemoryPercent: 25 })
  expect(pricePerHour(quarter, defaultPriceBook)).toBeCloseTo(
    0.35 / 4 + 2 * 0.031611 + 4 * 0.004237,
  )
})

test('list prices rebuild the instances they came from', () => {
  const price = (gpu: string, cpuCores: number, gib: number) =>
    pricePerHour(parseResources({ gpu, cpuCores, memoryMiB: gib * 1024 }), defaultPriceBook)
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
  expect(() => pricePerHour(parseResources({ gpu: 'RTX-4090' }), defaultPriceBook)).toThrow(
    /no price for the GPU RTX-4090.*--prices FILE/,
  )
})

test('a book of the user adds to or replaces the list prices', () => {
  const added = parsePriceBook('gpus:\n  rtx 4090: 0.44\n  T4: 0.2\nvcpu: 0.02\n', 'mine.yaml')
  expect(added.gpus['RTX-4090']).toEqual({ perHour: 0.44, source: 'mine.yaml' })
  expect(added.gpus.T4!.perHour).toBe(0.2)
  expect(added.gpus.V100).toEqual(defaultPriceBook.gpus.V100)
  expect(added.vcpu.perHour).toBe(0.02)
  const own = parsePriceBook(
    'extends: nothing\ncurrency: EUR\nvcpu: 0.02\nmemoryGiB: 0.003\ngpus: {L4: 0.5}',
    'mine.yaml',
  )
  expect(Object.keys(own.gpus)).toEqual(['L4'])
  expect(own.currency).toBe('EUR')
})

test('one GPU under two names has one price, not the last', () =>
  expect(() =>
    parsePriceBook('gpus:\n  T4: 0.35\n  L4: 0.7\n  Tesla T4: 0.53\n', 'mine.yaml'),
  ).toThrow("mine.yaml:4: gpus.Tesla T4: 'T4' is the same GPU (T4): write one price"))

test('what a book leaves out keeps the list price; what it gives has its name and source', () => {
  const memory = parsePriceBook('memoryGiB: 0.01\nname: ours\nsource: contract 7\n', 'mine.yaml')
  expect(memory).toMatchObject({ name: 'ours', currency: 'USD', vcpu: defaultPriceBook.vcpu })
  expect(memory.memoryGiB).toEqual({ perHour: 0.01, source: 'contract 7' })
  const unnamed = parsePriceBook('vcpu: 0.02\n', 'mine.yaml')
  expect(unnamed).toMatchObject({
    name: 'mine.yaml',
    memoryGiB: defaultPriceBook.memoryGiB,
    gpus: defaultPriceBook.gpus,
  })
  expect(unnamed.vcpu).toEqual({ perHour: 0.02, source: 'mine.yaml' })
})

test('prices in another currency stand beside no list prices', () => {
  expect(() => parsePriceBook('currency: EUR\nvcpu: 0.02\n', 'p.yaml')).toThrow(
    /p.yaml:1: currency: list prices are in USD; write 'extends: nothing'/,
  )
  expect(parsePriceBook('currency: USD\nvcpu: 0.02\n', 'p.yaml').currency).toBe('USD')
})

test('a price that is missing is wrong input', () => {
  try {
    pricePerHour(parseResources({ gpu: 'RTX-4090' }), defaultPriceBook)
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
  expect(() => parsePriceBook('gpus: {V1000: 2}', 'p.yaml')).toThrow(
    /p.yaml:1: gpus.V1000: unknown GPU 'V1000'; did you mean V100/,
  )
  expect(() => parsePriceBook('extends: nothing', 'p.yaml')).toThrow(
    /vcpu: needed.*\n.*memoryGiB: needed/,
  )
  expect(() => parsePriceBook('gpus: [', 'p.yaml')).toThrow(/^p.yaml:1: /)
})

test('one table: the instance that a GPU’s price is from comes back from its GPUs, cores and memory', () => {
  for (const provider of providerNames) {
    const book = findProviderBook(provider)!
    if (book.instances !== undefined) continue
    const sold = Object.entries(book.gpus).filter(
      ([, { source }]) => !source.startsWith('accelerator'),
    )
    expect(sold.length, provider).toBeGreaterThan(2)
    for (const [gpu, { source }] of sold) {
      const instance = findInstance(source.slice(0, source.indexOf(',')))
      const { gpus, vcpus, memoryGiB, onDemandPerHour, reservedPerHour } = instance
      expect(instance.gpu).toBe(gpu)
      const rebuilt = pricePerHour(
        { gpu, gpus, gpuShare: 1, cpuCores: vcpus, memoryMiB: memoryGiB * 1024 },
        book,
      )
      // A GPU's price has four digits.
      expect(
        Math.abs(rebuilt - (provider === 'aws-reserved' ? reservedPerHour! : onDemandPerHour)),
        `${provider} ${gpu}`,
      ).toBeLessThan(1e-3)
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
  expect(() => findInstance('g4dn.tiny')).toThrow(/no instance 'g4dn.tiny'/)
})

test('a provider’s book: every price has its place and date', () => {
  const known = new Set(gpuCatalogue.map(({ name }) => name))
  for (const provider of providerNames) {
    const { name, gpus } = findProviderBook(provider)!
    expect(name).toMatch(/20\d\d/)
    for (const [gpu, { perHour, source }] of Object.entries(gpus)) {
      expect(known, gpu).toContain(gpu)
      expect(perHour, `${provider} ${gpu}`).toBeGreaterThan(0.1)
      expect(source, `${provider} ${gpu}`).toMatch(/20\d\d/)
    }
  }
  expect(findProviderBook('constructor')).toBeUndefined()
})

test('the built-in list has AWS’s A100s: GCP’s beside AWS’s other GPUs were two thirds too dear', () => {
  for (const gpu of [
    'T4',
    'V100',
    'A10G',
    'A100-40GB',
    'A100-80GB',
    'L4',
    'L40S',
    'H100',
    'H200',
    'B200',
  ])
    expect(
      defaultPriceBook.gpus[gpu]!.perHour / findProviderBook('aws')!.gpus[gpu]!.perHour,
      gpu,
    ).toBeCloseTo(1, 1)
})

test('a book may start from a provider’s', () => {
  const mine = parsePriceBook('extends: gcp\ngpus: { T4: 0.2 }', 'mine.yaml')
  expect(mine.gpus.T4!.perHour).toBe(0.2)
  expect(mine.gpus.L4).toEqual(findProviderBook('gcp')!.gpus.L4)
  expect(mine.vcpu).toEqual(findProviderBook('gcp')!.vcpu)
  expect(() => parsePriceBook('extends: gpc', 'mine.yaml')).toThrow(/extends/)
})

test('prices that nobody lists are asked of the user, by the provider that the file may start from', () => {
  expect(explainUnknownRates('gcp-spot')).toMatch(
    /no spot prices of gcp: they change hourly; add your own with --prices FILE: {2}extends: gcp, source/,
  )
  expect(explainUnknownRates('azure-committed')).toMatch(
    /no committed prices of azure: tune has no dated list/,
  )
  for (const name of ['aws-reserved', 'gcp', 'our-spot', './aws-spot.yaml'])
    expect(explainUnknownRates(name)).toBeUndefined()
})

test('one core and an H100 cost the instance that has an H100, whole or shared', () => {
  const book = findProviderBook('aws-instances')!
  const whole = parseResources({ cpuCores: 1, memoryMiB: 4096, gpu: 'H100' })
  expect(pricePerHour(whole, book)).toBe(6.88)
  expect(findCheapestInstance(whole, book.instances!)).toMatchObject({
    instance: { name: 'p5.4xlarge' },
    replicasEach: 1,
  })
  // Quarters share one while its 16 cores go round: four of 4 cores, three of 5, ...
  const quarter = (cpuCores: number) =>
    parseResources({ cpuCores, memoryMiB: 4096, gpu: 'H100', gpuMemoryPercent: 25 })
  expect(pricePerHour(quarter(4), book)).toBeCloseTo(6.88 / 4, 12)
  // ... and of eight GPUs with 192 cores 32 of 6, at the same price for each GPU.
  expect(pricePerHour(quarter(6), book)).toBeCloseTo(55.04 / 32, 12)
  expect(findCheapestBundles(listBundles(quarter(6), book)!, 3)).toMatchObject({
    bundle: { name: 'p5.4xlarge' },
    count: 2,
    perHour: 13.76,
  })
  // Seven slices on each.
  expect(pricePerHour(parseResources({ gpu: 'H100', migProfile: '1g.10gb' }), book)).toBeCloseTo(
    6.88 / 7,
    12,
  )
  // Without a GPU cores and memory have the provider's own rates.
  expect(pricePerHour(parseResources({ cpuCores: 2, memoryMiB: 4096 }), book)).toBeCloseTo(
    2 * 0.033 + 4 * 0.00375,
    12,
  )
  expect(listBundles(parseResources({ cpuCores: 2, memoryMiB: 4096 }), book)).toBeUndefined()
})

test('fleets on instances: whole ones, never below the part of a replica or of the GPU, and more replicas never cost less', () => {
  const share = fc.constantFrom(100, 50, 25, 20, 10)
  const names = providerNames.filter((name) => findProviderBook(name)!.instances !== undefined)
  expect(names).toEqual([
    'aws-instances',
    'aws-reserved-instances',
    'gcp-instances',
    'azure-instances',
  ])
  fc.assert(
    fc.property(
      fc.constantFrom(...names),
      fc.nat(),
      fc.record({
        cpuCores: fc.integer({ min: 1, max: 4 }),
        gib: fc.integer({ min: 1, max: 14 }),
        gpuMemoryPercent: share,
      }),
      fc.integer({ min: 1, max: 60 }),
      (name, nth, { cpuCores, gib, gpuMemoryPercent }, replicas) => {
        const book = findProviderBook(name)!
        const { gpu } = book.instances![nth % book.instances!.length]!
        const resources = parseResources({ gpu, cpuCores, memoryMiB: gib * 1024, gpuMemoryPercent })
        const one = pricePerHour(resources, book)
        const price = { pricePerHour: one, bundles: listBundles(resources, book)! }
        const fleet = computeFleetPricePerHour(price, replicas)
        expect(one).toBeGreaterThanOrEqual(book.gpus[gpu]!.perHour * resources.gpuShare - 1e-9)
        expect(fleet).toBeGreaterThanOrEqual(replicas * one - 1e-9)
        expect(computeFleetPricePerHour(price, replicas + 1)).toBeGreaterThanOrEqual(fleet - 1e-9)
        // Beside every instance of the list, those left out, too.
        const fleets = book.instances!.flatMap((instance) => {
          const each = countReplicasPerInstance(resources, instance)
          return each > 0 ? [Math.ceil(replicas / each) * instance.perHour] : []
        })
        expect(fleet).toBeCloseTo(Math.min(...fleets), 9)
      },
    ),
  )
})

test('ways to buy: prices of an instance before those of all, the price given before both', () => {
  const book = parsePriceBook(
    'extends: nothing\nvcpu: 0.03\nmemoryGiB: 0\ncommittedShare: 0.5\ninstances:\n  a: {gpu: T4, gpus: 2, vcpus: 8, memoryGiB: 32, price: 2, committed: 1.2}\n  b: {gpu: T4, vcpus: 8, memoryGiB: 32, price: 3}\n  c: {gpu: L4, vcpus: 8, memoryGiB: 32, price: 1}',
    'mine.yaml',
  )
  const t4 = parseResources({ gpu: 'T4', cpuCores: 1 })
  expect(listOffers(t4, book)).toEqual([
    { instance: 'a', replicasEach: 2, onDemandPerHour: 2, committedPerHour: 1.2 },
    { instance: 'b', replicasEach: 1, onDemandPerHour: 3, committedPerHour: 1.5 },
  ])
  const committed = (given: CommittedPrice) =>
    listOffers(t4, book, given).map(({ committedPerHour }) => committedPerHour)
  expect(committed({ share: 0.4 })).toEqual([0.8, 1.2000000000000002])
  expect(committed({ perHour: 0.1 })).toEqual([0.1, 0.1])
  // Without a GPU a replica is sold by itself, at the book's share.
  expect(listOffers(parseResources({ cpuCores: 2, memoryMiB: 1024 }), book)).toEqual([
    { replicasEach: 1, onDemandPerHour: 0.06, committedPerHour: 0.03 },
  ])
  // A provider's commitments are those of its own list, and stand beside on-demand prices alone.
  const ofT4 = (name: string) =>
    listOffers(t4, findProviderBook(name)!).find((o) => o.instance === 'g4dn.xlarge')
  expect(ofT4('aws-instances')).toEqual({
    instance: 'g4dn.xlarge',
    replicasEach: 1,
    onDemandPerHour: 0.526,
    committedPerHour: 0.331,
  })
  expect(ofT4('aws-reserved-instances')).toEqual({
    instance: 'g4dn.xlarge',
    replicasEach: 1,
    onDemandPerHour: 0.331,
  })
  expect(() => parsePriceBook('committedShare: 1.5', 'mine.yaml')).toThrow('at most 1')
})

test('bundles know how nodes are labelled, and whether the replicas fill them', () => {
  const t4 = (cpuCores: number) => parseResources({ gpu: 'T4', cpuCores, memoryMiB: 4096 })
  const [aws] = listBundles(t4(4), findProviderBook('aws-instances')!)!
  expect(aws).toEqual({
    name: 'g4dn.xlarge',
    replicas: 1,
    perHour: 0.526,
    instanceType: 'g4dn.xlarge',
    isFull: true,
  })
  expect(listBundles(t4(3), findProviderBook('aws-instances')!)![0]).not.toHaveProperty('isFull')
  const [azure] = listBundles(t4(2), findProviderBook('azure-instances')!)!
  expect(azure).toMatchObject({ name: 'NC4as_T4_v3', instanceType: 'Standard_NC4as_T4_v3' })
  const own = (more: string) =>
    parsePriceBook(
      `instances: {box: {gpu: T4, vcpus: 8, memoryGiB: 32, price: 2${more}}}`,
      'mine.yaml',
    )
  expect(listBundles(t4(2), own(', instanceType: n1-standard-8'))![0]).toMatchObject({
    name: 'box',
    instanceType: 'n1-standard-8',
  })
  expect(listBundles(t4(2), own(''))![0]).not.toHaveProperty('instanceType')
  expect(() => own(", instanceType: 'a b'")).toThrow('label value')
})

test.each([
  // GKE's own tables: 3.92 of 4 cores and 13.3 of 16 GiB, 7.91 of 8.
  ['gke', 4, 16, 0.08, 2.7],
  ['gke', 8, 32, 0.09, 3.66],
  // 80 millicores; 11 MiB for each of 110 pods, 255 MiB, and 100 MiB below which pods are evicted.
  ['eks', 4, 16, 0.08, 1.53],
  // The table's 140, 260 and 740 millicores; 20 MiB for each of 110 pods and 50 MiB, or a quarter.
  ['aks', 4, 28, 0.14, 2.3],
  ['aks', 16, 8, 0.26, 2.1],
  ['aks', 64, 440, 0.74, 2.3],
] as const)('%s keeps of %d cores and %d GiB so much', (cluster, vcpus, memoryGiB, cores, gib) => {
  const kept = reservedByCluster[cluster]({ vcpus, memoryGiB })
  expect(kept.vcpus).toBeCloseTo(cores, 9)
  expect(kept.memoryGiB).toBeCloseTo(gib, 1)
})

test('what nodes keep is no replica’s: a book that says so sells larger instances, and leaves nothing to be made smaller', () => {
  const t4 = (cpuCores: number) => parseResources({ gpu: 'T4', cpuCores, memoryMiB: 4096 })
  const eks = parsePriceBook('extends: aws-instances\nnodeKeeps: eks\n', 'mine.yaml')
  const [first] = listBundles(t4(4), eks)!
  expect(first).toMatchObject({ name: 'g4dn.2xlarge', replicas: 1, perHour: 0.752 })
  expect(first).not.toHaveProperty('isFull')
  expect(pricePerHour(t4(4), eks)).toBe(0.752)
  expect(listBundles(t4(3.9), eks)![0]).toMatchObject({ name: 'g4dn.xlarge' })
  const box = (keeps: string) =>
    parsePriceBook(
      `nodeKeeps: ${keeps}\ninstances: {box: {gpu: T4, gpus: 4, vcpus: 16, memoryGiB: 64, price: 2}}`,
      'mine.yaml',
    )
  expect(pricePerHour(t4(4), box('{vcpus: 0, memoryGiB: 0}'))).toBe(0.5)
  expect(pricePerHour(t4(4), box('{vcpus: 0.5, memoryGiB: 0}'))).toBeCloseTo(2 / 3, 9)
  expect(() => pricePerHour(t4(4), box('{vcpus: 13, memoryGiB: 1}'))).toThrow(
    'box (4 x T4, 3 cores, 63 GiB left for pods)',
  )
  expect(() => box('{vcpus: 20, memoryGiB: 1}')).not.toThrow()
  expect(() => pricePerHour(t4(1), box('{vcpus: 20, memoryGiB: 1}'))).toThrow('no instance of')
  expect(() => parsePriceBook('nodeKeeps: eks\n', 'p.yaml')).toThrow(
    /p.yaml:1: nodeKeeps: applies only to instances/,
  )
  expect(() => parsePriceBook('extends: aws-instances\nnodeKeeps: k3s\n', 'p.yaml')).toThrow(
    /p.yaml:2: nodeKeeps: expected gke, eks, aks or/,
  )
})

test('what no instance holds is said with those that are sold', () => {
  const big = parseResources({ gpu: 'T4', cpuCores: 200 })
  expect(() => pricePerHour(big, findProviderBook('aws-instances')!)).toThrow(
    /has 1 x T4 with 200 cores and 4 GiB; it sells .*g4dn.xlarge \(1 x T4/,
  )
  // A part of each of two GPUs is paid as two.
  expect(
    pricePerHour(
      parseResources({ gpu: 'L4', gpus: 2, gpuMemoryPercent: 50 }),
      findProviderBook('gcp-instances')!,
    ),
  ).toBe(2.11)
})

test('a file sells instances of its own, alone or beside a provider’s', () => {
  const box = 'instances:\n  box: {gpu: T4, gpus: 4, vcpus: 32, memoryGiB: 128, price: 1}\n'
  const own = parsePriceBook(box, 'mine.yaml')
  expect(pricePerHour(parseResources({ gpu: 'T4', cpuCores: 8, memoryMiB: 1024 }), own)).toBe(0.25)
  expect(own.gpus).toEqual({
    T4: { perHour: 0.25, source: 'box, mine.yaml, including cores and memory' },
  })
  const beside = parsePriceBook(`extends: aws-instances\n${box}`, 'mine.yaml')
  expect(Object.keys(beside.gpus)).toContain('H100')
  expect(beside.gpus.T4!.perHour).toBe(0.25)
  const cheaper = parsePriceBook(
    'extends: aws-instances\ninstances:\n  g4dn.xlarge: {gpu: T4, vcpus: 4, memoryGiB: 16, price: 0.16}\n',
    'rented.yaml',
  )
  expect(
    cheaper.instances!.filter(({ name }) => name === 'g4dn.xlarge').map(({ perHour }) => perHour),
  ).toEqual([0.16])
  const wrong =
    'extends: aws-instances\ngpus: {T4: 1}\ninstances:\n  a: {gpu: T5, vcpus: 0, memoryGiB: 8, price: 1}\n'
  expect(() => parsePriceBook(wrong, 'p.yaml')).toThrow(
    /p.yaml:4: instances.a.vcpus: expected a number above 0/,
  )
  expect(() => parsePriceBook(wrong.replace('vcpus: 0', 'vcpus: 1'), 'p.yaml')).toThrow(
    /p.yaml:4: instances.a.gpu: unknown GPU 'T5'/,
  )
  expect(() =>
    parsePriceBook(wrong.replace('vcpus: 0', 'vcpus: 1').replace('T5', 'T4'), 'p.yaml'),
  ).toThrow(/p.yaml:2: gpus: this book sells GPUs as instances/)
})
