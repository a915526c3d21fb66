/** The generated parts of docs/reference/gpus-and-prices.md. */
import { computeUsableMemoryMiB, type Gpu, gpuCatalogue } from '../../trials/devices/catalogue.ts'
import { computePaidFraction, listMigProfiles } from '../../trials/devices/mig.ts'
import { grouped } from '../../trials/grouped.ts'
import { defaultPriceBook } from '../../trials/prices/book.ts'
import { instances } from '../../trials/prices/instances.ts'
import { findProviderBook, providerNames } from '../../trials/prices/providers.ts'
import { code, codeList, table } from './markdown.ts'

export const gpusAndPricesRegions = (): Record<string, string> => ({
  catalogue: catalogueTable(),
  'MIG profiles': migTable(),
  'default prices': defaultPriceTable(),
  'provider prices': providerTable(),
  instances: instanceTable(),
})

const number = (value: number | undefined, digits = 2): string =>
  value === undefined ? '' : String(Number(value.toFixed(digits)))
const dollars = (value: number | undefined): string =>
  value === undefined ? '' : `$${value.toFixed(6).replace(/(\.\d\d\d*?)0+$/, '$1')}`

const catalogueTable = (): string =>
  table(
    [
      'GPU',
      'generation',
      'memory, GiB',
      'usable, MiB',
      'bandwidth, GB/s',
      'fp32',
      'fp16',
      'int8',
      'fp8',
      'power, W',
      'other names',
    ],
    gpuCatalogue.map((gpu) => [
      code(gpu.name),
      gpu.generation,
      number(gpu.memoryGiB),
      number(computeUsableMemoryMiB(gpu)),
      number(gpu.bandwidthGBs),
      number(gpu.peakTflops.fp32),
      number(gpu.peakTflops.fp16),
      number(gpu.peakTflops.int8),
      number(gpu.peakTflops.fp8),
      number(gpu.tdpWatts),
      codeList(gpu.aliases),
    ]),
  )

/** GPUs with the same profiles share their rows. */
function migTable(): string {
  const sliced = gpuCatalogue.filter((gpu) => listMigProfiles(gpu).length > 0)
  const groups = grouped(sliced, (gpu) => JSON.stringify(migRows(gpu)))
  return table(
    ['GPU', 'profile', 'memory, GiB', 'multiprocessors', 'share that is paid', 'slices per GPU'],
    [...groups.values()].flatMap((gpus) =>
      migRows(gpus[0]!).map((row, i) => [
        i === 0 ? codeList(gpus.map(({ name }) => name)) : '',
        ...row,
      ]),
    ),
  )
}

const migRows = (gpu: Gpu): string[][] =>
  listMigProfiles(gpu).map((profile) => [
    code(profile.name),
    number(profile.memoryMiB / 1024),
    number(profile.multiprocessors),
    number(computePaidFraction(profile), 3),
    number(profile.maxInstances),
  ])

const defaultPriceTable = (): string =>
  table(
    ['resource', '$ per hour', 'source'],
    [
      ...Object.entries(defaultPriceBook.gpus),
      ['1 vCPU', defaultPriceBook.vcpu] as const,
      ['1 GiB of memory', defaultPriceBook.memoryGiB] as const,
    ].map(([name, { perHour, source }]) => [
      name in defaultPriceBook.gpus ? code(name) : name,
      dollars(perHour),
      source,
    ]),
  )

/** Providers whose GPUs have a price of their own, without the instance around them. */
function providerTable(): string {
  const books = providerNames.flatMap((name) => {
    const book = findProviderBook(name)!
    return book.instances === undefined ? [{ name, book }] : []
  })
  const gpus = gpuCatalogue.filter(({ name }) => books.some(({ book }) => name in book.gpus))
  return table(
    ['resource', ...books.map(({ name }) => code(name))],
    [
      ...gpus.map(({ name }) => [
        code(name),
        ...books.map(({ book }) => dollars(book.gpus[name]?.perHour)),
      ]),
      ['1 vCPU', ...books.map(({ book }) => dollars(book.vcpu.perHour))],
      ['1 GiB of memory', ...books.map(({ book }) => dollars(book.memoryGiB.perHour))],
      ['list', ...books.map(({ book }) => book.name)],
    ],
  )
}

const instanceTable = (): string =>
  table(
    ['cloud', 'instance', 'GPUs', 'vCPUs', 'memory, GiB', 'on demand, $/h', 'one year, $/h'],
    instances.map((instance) => [
      instance.cloud,
      code(instance.name),
      `${instance.gpus} x ${instance.gpu}`,
      number(instance.vcpus),
      number(instance.memoryGiB),
      dollars(instance.onDemandPerHour),
      dollars(instance.reservedPerHour),
    ]),
  )
