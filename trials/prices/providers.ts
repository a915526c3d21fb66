/**
 * Price books of single providers. A GPU's price is an instance's price minus vCPUs and memory at
 * the provider's rates.
 */
import { applyCheapestInstances, type Price, type PriceBook } from './book.ts'
import { findInstance, type Instance, instances, listedAt } from './instances.ts'

/** Names of the listed instances from which GPUs are priced. */
type Offers = readonly string[]
type Rates = readonly [vcpu: number, memoryGiB: number, of: string]

const roundPrice = (value: number) => Number(value.toFixed(4))

/** @param paid selects the hourly price of an instance; all offers must have it */
function createBook(
  name: string,
  where: string,
  [vcpu, memoryGiB, of]: Rates,
  offers: Offers,
  paid: (instance: Instance) => number | undefined,
) {
  const gpus: Record<string, Price> = {}
  for (const instance of offers.map(findInstance)) {
    const own =
      (paid(instance) ?? Number.NaN) - instance.vcpus * vcpu - instance.memoryGiB * memoryGiB
    gpus[instance.gpu] = {
      perHour: roundPrice(own / instance.gpus),
      source: `${instance.name}, ${where}, less its vCPUs and memory`,
    }
  }
  return {
    name,
    currency: 'USD',
    vcpu: { perHour: vcpu, source: of },
    memoryGiB: { perHour: memoryGiB, source: of },
    gpus,
  }
}

const getOnDemandPrice = ({ onDemandPerHour }: Instance) => onDemandPerHour
const getReservedPrice = ({ reservedPerHour }: Instance) => reservedPerHour

const reservedOffers = [
  'p3dn.24xlarge',
  'g4dn.xlarge',
  'g5.xlarge',
  'p4d.24xlarge',
  'p4de.24xlarge',
  'g6.xlarge',
  'g6e.xlarge',
]

const aws: PriceBook = createBook(
  `AWS on-demand, ${listedAt.aws}`,
  `on-demand, ${listedAt.aws}`,
  [0.033, 0.00375, 'AWS m6i and r6i, on-demand, us-east-1'],
  [
    'p2.xlarge',
    'g3s.xlarge',
    'p3.2xlarge',
    ...reservedOffers,
    'p5.4xlarge',
    'p5en.48xlarge',
    'p6-b200.48xlarge',
    'g7e.2xlarge',
  ],
  getOnDemandPrice,
)

/** Cores and memory at the discount of the instances below, 37 %. */
const awsReserved: PriceBook = {
  ...createBook(
    `AWS reserved for one year, no upfront, ${listedAt.aws}`,
    `reserved for one year, no upfront, ${listedAt.aws}`,
    [0.0208, 0.00236, 'AWS m6i and r6i at the discount of g4dn reserved for one year'],
    reservedOffers,
    getReservedPrice,
  ),
  isCommitted: true,
}

const gcpAt = `on-demand, ${listedAt.gcp}`
const createAttachedPrice = (perHour: number): Price => ({
  perHour,
  source: `accelerator attached to N1, ${gcpAt}`,
})
const gcpSold = createBook(
  `GCP ${gcpAt}`,
  gcpAt,
  [0.031611, 0.004237, 'GCP N1 on-demand, us-central1'],
  ['a2-highgpu-1g', 'a2-ultragpu-1g', 'g2-standard-4'],
  getOnDemandPrice,
)
/** N1's accelerators are sold apart from cores and memory. */
const gcp: PriceBook = {
  ...gcpSold,
  gpus: {
    K80: createAttachedPrice(0.45),
    P4: createAttachedPrice(0.6),
    P100: createAttachedPrice(1.46),
    V100: createAttachedPrice(2.48),
    T4: createAttachedPrice(0.35),
    ...gcpSold.gpus,
  },
}

const azure: PriceBook = createBook(
  `Azure pay-as-you-go, ${listedAt.azure}`,
  `pay-as-you-go, ${listedAt.azure}`,
  [0.033, 0.00375, 'Azure Dsv5 and Esv5, pay-as-you-go, East US'],
  instances.filter(({ cloud }) => cloud === 'azure').map(({ name }) => name),
  getOnDemandPrice,
)

/**
 * Label `node.kubernetes.io/instance-type` of the instance's nodes in a managed cluster: the name,
 * with a prefix on Azure.
 */
const createNodeLabel = ({ cloud, name }: Instance): string =>
  cloud === 'azure' ? `Standard_${name}` : name

/** GPUs only as the cloud's whole instances. */
const sellWholeInstances = (
  rates: PriceBook,
  cloud: string,
  at: string,
  paid: (instance: Instance) => number | undefined,
): PriceBook =>
  applyCheapestInstances(
    instances.flatMap((instance) => {
      const perHour = instance.cloud === cloud ? paid(instance) : undefined
      const { name, gpu, gpus, vcpus, memoryGiB, reservedPerHour } = instance
      const committed =
        rates.isCommitted || reservedPerHour === undefined
          ? {}
          : { committedPerHour: reservedPerHour }
      return perHour === undefined
        ? []
        : [
            {
              name,
              gpu,
              gpus,
              vcpus,
              memoryGiB,
              perHour,
              ...committed,
              instanceType: createNodeLabel(instance),
              source: at,
            },
          ]
    }),
    { ...rates, name: `${rates.name}, whole instances` },
  )

const providerBooks: Readonly<Record<string, PriceBook>> = {
  aws,
  'aws-reserved': awsReserved,
  gcp,
  azure,
  'aws-instances': sellWholeInstances(aws, 'aws', `on-demand, ${listedAt.aws}`, getOnDemandPrice),
  'aws-reserved-instances': sellWholeInstances(
    awsReserved,
    'aws',
    `reserved for one year, no upfront, ${listedAt.aws}`,
    getReservedPrice,
  ),
  'gcp-instances': sellWholeInstances(gcp, 'gcp', gcpAt, getOnDemandPrice),
  'azure-instances': sellWholeInstances(
    azure,
    'azure',
    `pay-as-you-go, ${listedAt.azure}`,
    getOnDemandPrice,
  ),
}

/** Names that are accepted in place of a path. */
export const providerNames: readonly string[] = Object.keys(providerBooks)

/** Undefined: no provider has the name. */
export const findProviderBook = (name: string): PriceBook | undefined =>
  Object.hasOwn(providerBooks, name) ? providerBooks[name] : undefined

/**
 * Providers whose list has the GPU, sold as in the given book: separately, or as whole instances.
 */
export const listProvidersWith = (gpu: string, { instances }: PriceBook): readonly string[] =>
  providerNames.filter((name) => {
    const { gpus, instances: sold, isCommitted } = providerBooks[name]!
    return (
      Object.hasOwn(gpus, gpu) && (sold === undefined) === (instances === undefined) && !isCommitted
    )
  })

/**
 * A hint for names without a list, such as `aws-spot` or `gcp-committed`; undefined for names of no
 * provider.
 */
export function explainUnknownRates(name: string): string | undefined {
  const [provider, kind] =
    /^(aws|gcp|azure)-(spot|preemptible|committed|reserved|savings)$/.exec(name)?.slice(1) ?? []
  if (provider === undefined || findProviderBook(name) !== undefined) return undefined
  const why =
    kind === 'spot' || kind === 'preemptible'
      ? 'they change hourly'
      : 'tune has no dated list of them'
  return `there are no ${kind} prices of ${provider}: ${why}; add your own with --prices FILE:  extends: ${provider}, source: where and when, gpus: { T4: 0.16 }, vcpu: 0.01, memoryGiB: 0.001`
}
