/** Prices of resources per hour, with their sources. */
import type { Bundle } from '../../search/replica-price.ts'
import type { Resources } from '../resources.ts'
import { computeAllocatable } from './allocatable.ts'
import { createBundles, findCheapestInstance, type SoldInstance } from './whole-instances.ts'

export interface Price {
  /** Per hour, in the book's currency. */
  readonly perHour: number
  readonly source: string
}
export interface PriceBook {
  readonly name: string
  readonly currency: string
  /**
   * Prices by catalogue name: of the GPU without the cores and memory around it, or with them if
   * `instances` are sold.
   */
  readonly gpus: Readonly<Record<string, Price>>
  readonly vcpu: Price
  readonly memoryGiB: Price
  /**
   * Instances as which GPUs are sold, with cores and memory; the rates above apply without a GPU.
   */
  readonly instances?: readonly SoldInstance[]
  /**
   * Price of committed capacity relative to the prices above, for instances without their own
   * price.
   */
  readonly committedShare?: number
  /** The prices above are themselves those of capacity that is committed to. */
  readonly isCommitted?: true
}

export class PriceError extends Error {
  /** Wrong input: the command line's exit code for usage. */
  readonly exitCode = 2

  constructor(
    readonly problem: string,
    readonly hint?: string,
  ) {
    super(hint === undefined ? problem : `${problem}; ${hint}`)
    this.name = 'PriceError'
  }
}

const n1 = 'GCP N1 on-demand, us-central1'
const attached = 'GCP accelerator attached to N1, on-demand, us-central1'
const discountRate = (instance: string) =>
  `${instance}, on-demand, less its vCPUs and memory at GCP N1 rates`

/**
 * On-demand list prices of 2025-2026. An instance's price less its vCPUs and memory leaves the
 * GPU's own; regressions over whole instance families agree within 10 % (A10G 0.80, L4 0.63, L40S
 * 1.48 a GPU).
 */
export const defaultPriceBook: PriceBook = {
  name: 'on-demand list prices 2025-2026',
  currency: 'USD',
  vcpu: { perHour: 0.031611, source: n1 },
  memoryGiB: { perHour: 0.004237, source: n1 },
  gpus: {
    K80: { perHour: 0.45, source: attached },
    M60: { perHour: 0.49, source: discountRate('AWS g3s.xlarge, us-east-1') },
    P4: { perHour: 0.6, source: attached },
    P100: { perHour: 1.46, source: attached },
    V100: { perHour: 2.48, source: attached },
    'V100-32GB': { perHour: 3.12, source: discountRate('AWS p3dn.24xlarge, us-east-1') },
    T4: { perHour: 0.35, source: attached },
    'A100-40GB': { perHour: 1.76, source: discountRate('AWS p4d.24xlarge, us-east-1') },
    'A100-80GB': { perHour: 2.44, source: discountRate('AWS p4de.24xlarge, us-east-1') },
    A10: {
      perHour: 0.65,
      source: discountRate('Alibaba ecs.gn7i family, cn-hangzhou, at 7.1 CNY to the USD'),
    },
    A10G: { perHour: 0.81, source: discountRate('AWS g5.xlarge, us-east-1') },
    L4: { perHour: 0.61, source: discountRate('AWS g6.xlarge, us-east-1') },
    L40S: { perHour: 1.6, source: discountRate('AWS g6e.xlarge, us-east-1') },
    H100: { perHour: 5.29, source: discountRate('AWS p5.4xlarge, us-east-1') },
    H200: { perHour: 6.07, source: discountRate('AWS p5en.48xlarge, us-east-1') },
    B200: { perHour: 12.4, source: discountRate('AWS p6-b200.48xlarge, us-east-1') },
    'RTX-PRO-6000': { perHour: 2.84, source: discountRate('AWS g7e.2xlarge, us-east-1') },
  },
}

/**
 * Prices GPUs by the cheapest of these instances per GPU, cores and memory included.
 */
export function applyCheapestInstances(
  instances: readonly SoldInstance[],
  rates: Omit<PriceBook, 'gpus' | 'instances'>,
): PriceBook {
  const gpus: Record<string, Price> = {}
  for (const { name, gpu, gpus: held, perHour, source } of instances) {
    const each = perHour / held
    if (each < (gpus[gpu]?.perHour ?? Number.POSITIVE_INFINITY))
      gpus[gpu] = { perHour: each, source: `${name}, ${source}, including cores and memory` }
  }
  return { ...rates, gpus, instances }
}

/**
 * Price of one replica per hour = GPU price × share × GPUs + cores × vCPU price + memory × GiB
 * price; if GPUs are sold as instances, the lowest price of an instance divided by the replicas
 * that fit.
 * @throws PriceError if the book has no price for the GPU, or no instance that fits the replica
 */
export function pricePerHour(resources: Resources, book: PriceBook): number {
  const base =
    resources.cpuCores * book.vcpu.perHour + (resources.memoryMiB / 1024) * book.memoryGiB.perHour
  if (resources.gpu === undefined) return base
  const price = book.gpus[resources.gpu]
  if (price === undefined)
    throw new PriceError(
      `the price book '${book.name}' has no price for the GPU ${resources.gpu}`,
      formatUnpricedHint(resources.gpu, book),
    )
  if (book.instances !== undefined)
    return (
      findCheapestInstance(resources, book.instances) ?? createNoInstanceError(resources, book)
    ).perHour
  return base + price.perHour * resources.gpuShare * resources.gpus
}

/**
 * Whole instances that replicas are sold in; undefined if each is sold by itself.
 * @throws as `pricePerHour`
 */
export function listBundles(resources: Resources, book: PriceBook): readonly Bundle[] | undefined {
  if (book.instances === undefined || resources.gpu === undefined) return undefined
  const bundles = createBundles(resources, book.instances)
  return bundles.length > 0 ? bundles : createNoInstanceError(resources, book)
}

/**
 * How to specify a missing price.
 * @param elsewhere names of books that have it
 */
export const formatUnpricedHint = (
  gpu: string,
  { gpus, instances }: PriceBook,
  elsewhere: readonly string[] = [],
): string => {
  const others =
    elsewhere.length === 0 ? '' : `; --provider ${elsewhere.join(' or ')} has the ${gpu}`
  return `it has ${Object.keys(gpus).join(', ')}${others}; add one with --prices FILE:  ${instances ? formatInstanceLine(gpu) : `gpus: { ${gpu}: 1.20 }`}`
}

const formatInstanceLine = (gpu: string) =>
  `instances: {NAME: {gpu: ${gpu}, gpus: 8, vcpus: 96, memoryGiB: 768, price: 12.50}}`

function createNoInstanceError(
  { cpuCores, memoryMiB, gpu, gpus }: Resources,
  { name, instances = [] }: PriceBook,
): never {
  const shapes = instances
    .filter((i) => i.gpu === gpu)
    .map((i) => {
      const { vcpus, memoryGiB } = computeAllocatable(i)
      const node = i.kept === undefined ? '' : ' left for pods'
      return `${i.name} (${i.gpus} x ${gpu}, ${Number(vcpus.toFixed(2))} cores, ${Number(memoryGiB.toFixed(1))} GiB${node})`
    })
  throw new PriceError(
    `no instance of '${name}' has ${gpus} x ${gpu} with ${cpuCores} cores and ${Number((memoryMiB / 1024).toFixed(1))} GiB`,
    `it sells ${shapes.join(', ') || `none with a ${gpu}`}; reduce the requirement, or add your own instances with --prices FILE:  ${formatInstanceLine(String(gpu))}`,
  )
}
