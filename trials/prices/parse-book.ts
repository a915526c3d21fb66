/** A user's price book in YAML. */
import { z } from 'zod'
import { findGpu, type Gpu } from '../devices/catalogue.ts'
import { DeviceModelError } from '../devices/device-model-error.ts'
import { parseYaml } from '../yaml.ts'
import { reservedByCluster } from './allocatable.ts'
import { applyCheapestInstances, defaultPriceBook, type Price, type PriceBook } from './book.ts'
import { findProviderBook, providerNames } from './providers.ts'
import type { SoldInstance } from './whole-instances.ts'

const perHour = z.number('expected a price per hour').nonnegative('expected a price of 0 or more')

const amount = z.number('expected a number').nonnegative('expected a number of 0 or more')
const above = z.number('expected a number above 0').positive('expected a number above 0')
const share = z
  .number('expected a share such as 0.35')
  .positive('expected a share above 0')
  .max(1, 'expected a share of at most 1')
const count = z
  .int('expected a whole number of 1 or more')
  .min(1, 'expected a whole number of 1 or more')

/** The catalogue's name of a GPU; undefined, with an issue, for one that is not known. */
function checkGpu(
  name: string,
  path: string[],
  context: z.RefinementCtx,
  ownGpus: readonly Gpu[],
): string | undefined {
  try {
    return findGpu(name, ownGpus).name
  } catch (error) {
    if (!(error instanceof DeviceModelError)) throw error
    context.addIssue({ code: 'custom', path, message: error.message, input: undefined })
    return undefined
  }
}

const createBookSchema = (ownGpus: readonly Gpu[]) =>
  z.strictObject({
    name: z.string().optional(),
    currency: z.string().optional(),
    /**
     * 'default' adds to the built-in list prices, a provider's name to that provider's; 'nothing'
     * starts empty.
     */
    extends: z.enum(['default', 'nothing', ...providerNames]).default('default'),
    source: z.string().optional(),
    gpus: z
      .record(z.string(), perHour)
      .default({})
      .superRefine((gpus, context) => {
        const written = new Map<string, string>()
        for (const name of Object.keys(gpus)) {
          const gpu = checkGpu(name, [name], context, ownGpus)
          if (gpu === undefined) continue
          const before = written.get(gpu)
          if (before !== undefined)
            context.addIssue({
              code: 'custom',
              path: [name],
              message: `'${before}' is the same GPU (${gpu}): write one price`,
              input: undefined,
            })
          written.set(gpu, name)
        }
      }),
    /**
     * GPUs are sold as these alone: with the list's own where it starts from a provider's
     * instances.
     */
    instances: z
      .record(
        z.string(),
        z.strictObject({
          gpu: z.string(),
          gpus: count.default(1),
          vcpus: above,
          memoryGiB: above,
          price: perHour,
          committed: perHour.optional(),
          /** `node.kubernetes.io/instance-type` of its nodes, which specs select. */
          instanceType: z
            .string()
            .regex(
              /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/,
              'expected a label value such as g6.xlarge',
            )
            .optional(),
        }),
      )
      .superRefine((instances, context) => {
        for (const [name, { gpu }] of Object.entries(instances))
          checkGpu(gpu, [name, 'gpu'], context, ownGpus)
      })
      .optional(),
    /** Reservation of nodes: the rule of a managed cluster, or explicit figures. */
    nodeKeeps: z
      .union(
        [z.enum(['gke', 'eks', 'aks']), z.strictObject({ vcpus: amount, memoryGiB: amount })],
        'expected gke, eks, aks or {vcpus: 0.3, memoryGiB: 1.5}',
      )
      .optional(),
    vcpu: perHour.optional(),
    memoryGiB: perHour.optional(),
    /** Price of committed capacity relative to the others, where not specified: 0.63 = 63 %. */
    committedShare: share.optional(),
  })

/**
 * Reads a price book such as `gpus: { T4: 0.30 }`, `vcpu: 0.03`, `memoryGiB: 0.004`; missing prices
 * are list prices unless it has `extends: nothing`.
 * @throws YamlFileError naming every problem with its file and line.
 */
export function parsePriceBook(
  text: string,
  fileName: string,
  ownGpus: readonly Gpu[] = [],
): PriceBook {
  const schema = createBookSchema(ownGpus).superRefine((book, context) => {
    const sold =
      book.instances !== undefined || findProviderBook(book.extends)?.instances !== undefined
    if (sold && Object.keys(book.gpus).length > 0)
      context.addIssue({
        code: 'custom',
        path: ['gpus'],
        message:
          'this book sells GPUs as instances: write the price of the instance, or leave the instances out',
        input: undefined,
      })
    if (!sold && book.nodeKeeps !== undefined)
      context.addIssue({
        code: 'custom',
        path: ['nodeKeeps'],
        message: "applies only to instances: add `instances`, or write 'extends: gcp-instances'",
        input: undefined,
      })
    if (book.extends !== 'nothing') {
      if (book.currency !== undefined && book.currency !== defaultPriceBook.currency)
        context.addIssue({
          code: 'custom',
          path: ['currency'],
          message: `list prices are in ${defaultPriceBook.currency}; write 'extends: nothing' to set all prices in another currency`,
          input: book.currency,
        })
      return
    }
    for (const key of ['vcpu', 'memoryGiB'] as const)
      if (book[key] === undefined)
        context.addIssue({
          code: 'custom',
          path: [key],
          message: `needed because of 'extends: nothing'`,
          input: undefined,
        })
  })
  const book = parseYaml(text, fileName, schema)
  const base = findProviderBook(book.extends) ?? defaultPriceBook
  const source = book.source ?? fileName
  const priced = (value: number): Price => ({ perHour: value, source })
  const own = Object.fromEntries(
    Object.entries(book.gpus).map(([name, value]) => [findGpu(name, ownGpus).name, priced(value)]),
  )
  const rates = {
    name: book.name ?? fileName,
    currency: book.currency ?? defaultPriceBook.currency,
    vcpu: book.vcpu === undefined ? base.vcpu : priced(book.vcpu),
    memoryGiB: book.memoryGiB === undefined ? base.memoryGiB : priced(book.memoryGiB),
    ...(book.committedShare !== undefined && { committedShare: book.committedShare }),
    ...(base.isCommitted && { isCommitted: true as const }),
  }
  const sold = Object.entries(book.instances ?? {}).map(
    ([name, { gpu, price, committed, instanceType, ...shape }]): SoldInstance => ({
      name,
      gpu: findGpu(gpu, ownGpus).name,
      ...shape,
      perHour: price,
      ...(committed !== undefined && { committedPerHour: committed }),
      ...(instanceType !== undefined && { instanceType }),
      source,
    }),
  )
  if (book.instances !== undefined || base.instances !== undefined) {
    const all = [
      ...(base.instances ?? []).filter(({ name }) => !Object.hasOwn(book.instances ?? {}, name)),
      ...sold,
    ]
    const { nodeKeeps: keeps } = book
    if (keeps === undefined) return applyCheapestInstances(all, rates)
    return applyCheapestInstances(
      all.map((instance) => ({
        ...instance,
        kept: typeof keeps === 'string' ? reservedByCluster[keeps](instance) : keeps,
      })),
      rates,
    )
  }
  return { ...rates, gpus: book.extends === 'nothing' ? own : { ...base.gpus, ...own } }
}
