/**
 * Price books of one provider each: what a GPU costs there beside cores and memory at that
 * provider's own rates. An instance's price less its vCPUs and memory leaves the GPU's own.
 */
import { type Price, type PriceBook, soldAs } from './book.ts'
import { type Instance, instanceNamed, instances, listedAt } from './instances.ts'

/** What GPUs are priced from: instances of the list, by name. */
type Offers = readonly string[]
type Rates = readonly [vcpu: number, memoryGiB: number, of: string]

const cents = (value: number) => Number(value.toFixed(4))

/** @param paid what of an instance's prices is paid per hour; all the offers have it */
function book(
  name: string,
  where: string,
  [vcpu, memoryGiB, of]: Rates,
  offers: Offers,
  paid: (instance: Instance) => number | undefined,
) {
  const gpus: Record<string, Price> = {}
  for (const instance of offers.map(instanceNamed)) {
    const own =
      (paid(instance) ?? Number.NaN) - instance.vcpus * vcpu - instance.memoryGiB * memoryGiB
    gpus[instance.gpu] = {
      perHour: cents(own / instance.gpus),
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

const onDemand = ({ onDemandPerHour }: Instance) => onDemandPerHour
const reserved = ({ reservedPerHour }: Instance) => reservedPerHour

const reservedOffers = [
  'p3dn.24xlarge',
  'g4dn.xlarge',
  'g5.xlarge',
  'p4d.24xlarge',
  'p4de.24xlarge',
  'g6.xlarge',
  'g6e.xlarge',
]

const aws: PriceBook = book(
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
  onDemand,
)

/** Cores and memory at the discount of the instances below, 37 %. */
const awsReserved: PriceBook = {
  ...book(
    `AWS reserved for one year, no upfront, ${listedAt.aws}`,
    `reserved for one year, no upfront, ${listedAt.aws}`,
    [0.0208, 0.00236, 'AWS m6i and r6i at the discount of g4dn reserved for one year'],
    reservedOffers,
    reserved,
  ),
  isCommitted: true,
}

const gcpAt = `on-demand, ${listedAt.gcp}`
const attached = (perHour: number): Price => ({
  perHour,
  source: `accelerator attached to N1, ${gcpAt}`,
})
const gcpSold = book(
  `GCP ${gcpAt}`,
  gcpAt,
  [0.031611, 0.004237, 'GCP N1 on-demand, us-central1'],
  ['a2-highgpu-1g', 'a2-ultragpu-1g', 'g2-standard-4'],
  onDemand,
)
/** N1's accelerators are sold apart from cores and memory. */
const gcp: PriceBook = {
  ...gcpSold,
  gpus: {
    K80: attached(0.45),
    P4: attached(0.6),
    P100: attached(1.46),
    V100: attached(2.48),
    T4: attached(0.35),
    ...gcpSold.gpus,
  },
}

const azure: PriceBook = book(
  `Azure pay-as-you-go, ${listedAt.azure}`,
  `pay-as-you-go, ${listedAt.azure}`,
  [0.033, 0.00375, 'Azure Dsv5 and Esv5, pay-as-you-go, East US'],
  instances.filter(({ cloud }) => cloud === 'azure').map(({ name }) => name),
  onDemand,
)

/**
 * What a managed cluster's nodes of that instance have as `node.kubernetes.io/instance-type`: the
 * name, of Azure's with their prefix.
 */
const nodeLabel = ({ cloud, name }: Instance): string =>
  cloud === 'azure' ? `Standard_${name}` : name

/** GPUs only as the cloud's whole instances. */
const wholly = (
  rates: PriceBook,
  cloud: string,
  at: string,
  paid: (instance: Instance) => number | undefined,
): PriceBook =>
  soldAs(
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
              instanceType: nodeLabel(instance),
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
  'aws-instances': wholly(aws, 'aws', `on-demand, ${listedAt.aws}`, onDemand),
  'aws-reserved-instances': wholly(
    awsReserved,
    'aws',
    `reserved for one year, no upfront, ${listedAt.aws}`,
    reserved,
  ),
  'gcp-instances': wholly(gcp, 'gcp', gcpAt, onDemand),
  'azure-instances': wholly(azure, 'azure', `pay-as-you-go, ${listedAt.azure}`, onDemand),
}

/** What stands in place of a path. */
export const providerNames: readonly string[] = Object.keys(providerBooks)

/** Undefined: no provider has the name. */
export const providerBook = (name: string): PriceBook | undefined =>
  Object.hasOwn(providerBooks, name) ? providerBooks[name] : undefined

/**
 * Those whose list has the GPU, sold as a book of that kind sells: by itself, or as whole
 * instances.
 */
export const providersWith = (gpu: string, { instances }: PriceBook): readonly string[] =>
  providerNames.filter((name) => {
    const { gpus, instances: sold, isCommitted } = providerBooks[name]!
    return (
      Object.hasOwn(gpus, gpu) && (sold === undefined) === (instances === undefined) && !isCommitted
    )
  })

/**
 * What to do about a name such as `aws-spot` or `gcp-committed` that has no list; undefined for
 * what is no provider's.
 */
export function unknownRatesHint(name: string): string | undefined {
  const [provider, kind] =
    /^(aws|gcp|azure)-(spot|preemptible|committed|reserved|savings)$/.exec(name)?.slice(1) ?? []
  if (provider === undefined || providerBook(name) !== undefined) return undefined
  const why =
    kind === 'spot' || kind === 'preemptible'
      ? 'they change hourly'
      : 'tune has no dated list of them'
  return `there are no ${kind} prices of ${provider}: ${why}; add your own with --prices FILE:  extends: ${provider}, source: where and when, gpus: { T4: 0.16 }, vcpu: 0.01, memoryGiB: 0.001`
}
