/** `tune doctor`: lists what this machine or cluster supports, and what is missing. */
import { gpuCatalogue } from '../../../../trials/devices/catalogue.ts'
import type { ClusterFacts } from '../../../../trials/launchers/kubernetes/gpus/cluster-facts.ts'
import {
  findCatalogueName,
  findShareBound,
  isWhole,
  listGpuWarnings,
} from '../../../../trials/machine/gpu-offer.ts'
import { inspectMachine, type MachineFacts } from '../../../../trials/machine/machine-facts.ts'
import { formatShareHint } from '../../../config/local-gpus.ts'
import { exitCodes } from '../../../exit-codes.ts'
import { explainUnusedGpus } from '../../../loop/gpu-notices.ts'
import { formatTable } from '../../render/columns.ts'
import { detectStyle, glyph, paint, type Style } from '../../render/glyphs.ts'

/** One line of output. */
interface Finding {
  readonly ok: boolean
  readonly what: string
  readonly found: string
}

function listFindings(machine: MachineFacts): Finding[] {
  const { cgroups } = machine
  const limits = [cgroups.cpuParent && 'CPU time', cgroups.memoryParent && 'memory'].filter(
    (limit) => limit !== undefined,
  )
  return [
    { ok: true, what: 'Node', found: process.version },
    {
      ok: machine.cores > 1,
      what: 'CPU',
      found: `${machine.cores} cores, ${machine.affinity.length} usable (${machine.cpuModel})`,
    },
    {
      ok: true,
      what: 'Memory',
      found: `${Math.round(machine.memoryMiB / 1024)} GiB, ${Math.round(machine.availableMemoryMiB / 1024)} GiB available`,
    },
    {
      ok: machine.taskset !== undefined,
      what: 'Core affinity',
      found:
        machine.taskset ??
        'taskset not found (Debian: util-linux): only thread counts limit the cores',
    },
    {
      ok: limits.length > 0,
      what: 'Control groups',
      found: `version ${cgroups.version || 'none'}, ${limits.length > 0 ? `limits on ${limits.join(' and ')} are enforced` : 'not writable: limits are not enforced'}`,
    },
    ...listGpuFindings(machine),
    ...machine.packages.map((p) => ({
      ok: p.state === 'ok',
      what: p.name,
      found:
        p.state === 'ok'
          ? p.version
          : p.state === 'broken'
            ? `broken: ${p.problem}`
            : `not installed (needed for ${p.gives}): npm install ${p.name}`,
    })),
    {
      ok: machine.cluster !== undefined,
      what: 'Kubernetes',
      found: machine.cluster
        ? `configuration at ${machine.cluster}`
        : 'no KUBECONFIG: trials run on this machine',
    },
  ]
}

/** The GPUs with warnings, how they can be shared, and whether the built-in server can use them. */
function listGpuFindings(machine: MachineFacts): Finding[] {
  const { gpus, gpuProblem, mps } = machine
  const broken: Finding[] =
    gpuProblem === undefined ? [] : [{ ok: false, what: 'GPU', found: gpuProblem }]
  if (gpus.length === 0)
    return gpuProblem === undefined
      ? [
          {
            ok: false,
            what: 'GPU',
            found: 'none found by nvidia-smi or rocm-smi: GPUs are emulated or simulated',
          },
        ]
      : broken
  const gpuFindings = gpus.flatMap((gpu): Finding[] => {
    const slices = gpu.migEnabled
      ? `, MIG: ${gpu.migDevices.map((d) => d.profile).join(' ') || 'no slices'}`
      : ''
    const warnings = listGpuWarnings(gpu, mps)
    const unknown =
      findCatalogueName(gpu.name) === gpu.name &&
      !gpuCatalogue.some(({ name }) => name === gpu.name)
    return [
      {
        ok: warnings.length === 0,
        what: 'GPU',
        found: `${gpu.name}, ${formatMemory(gpu)}${slices}, driver ${gpu.driver}`,
      },
      ...warnings.map((warning) => ({ ok: false, what: '', found: warning })),
      ...(unknown
        ? [
            {
              ok: false,
              what: '',
              found: `${gpu.name} is not in the catalogue: describe it with --gpu-catalogue FILE, and price it with --prices FILE`,
            },
          ]
        : []),
    ]
  })
  const bound = findShareBound(gpus, mps, false)
  const sharing: Finding[] = gpus.some(isWhole)
    ? [
        {
          ok: bound === 'mps',
          what: 'GPU shares',
          found:
            bound === 'mps'
              ? 'MPS control daemon is running: shares of memory and threads are enforced'
              : `only whole GPUs: ${formatShareHint(gpus.map(({ name }) => name))}`,
        },
      ]
    : []
  const unused = explainUnusedGpus(['onnx', 'tfjs'], machine)
  const builtin: Finding = {
    ok: unused === undefined,
    what: 'Built-in server',
    found: unused ?? 'uses the GPU',
  }
  return [...broken, ...gpuFindings, ...sharing, builtin]
}

const formatMemory = ({ memoryMiB }: MachineFacts['gpus'][number]) =>
  memoryMiB === undefined ? 'memory unknown' : `${memoryMiB} MiB`

/** What the cluster offers, line by line. */
export function listClusterFindings(facts: ClusterFacts): Finding[] {
  const gpus = facts.gpus.map(({ product, gpu, scheme, nodes, divisible, resources }): Finding => {
    const resourceTexts = Object.entries(resources).map(
      ([name, { total, free }]) =>
        `${name} ${free === undefined ? '' : `${free} free of `}${total}`,
    )
    return {
      ok: gpu !== undefined,
      what: 'GPU',
      found: `${product}${gpu ? ` (${gpu})` : ', not in the catalogue'} on ${nodes} node${nodes === 1 ? '' : 's'}, scheme ${scheme}${divisible ? ', shared by memory' : ''}: ${resourceTexts.join(', ')}`,
    }
  })
  return [
    {
      ok: true,
      what: 'Cluster',
      found: `${facts.server}, Kubernetes ${facts.version}, namespace ${facts.namespace}`,
    },
    {
      ok: facts.nodes > 0,
      what: 'Nodes',
      found:
        facts.nodes > 0
          ? `${facts.nodes}: ${facts.cpuCores} cores, ${Math.round(facts.memoryMiB / 1024)} GiB for pods`
          : 'none visible',
    },
    ...(facts.dra
      ? [
          {
            ok: facts.dra.deviceClasses.length > 0,
            what: 'Device classes',
            found: `resource.k8s.io/${facts.dra.version}: ${facts.dra.deviceClasses.join(', ') || 'none: no DRA driver is installed, or tune may not list them'}`,
          },
        ]
      : []),
    ...(gpus.length > 0
      ? gpus
      : [
          {
            ok: false,
            what: 'GPU',
            found: 'no node has any: tune CPU configurations, or emulate GPUs',
          },
        ]),
    ...(facts.migFaults ?? []).map((found) => ({ ok: false, what: 'MIG', found })),
    ...facts.problems.map((problem) => ({ ok: false, what: 'No access', found: problem })),
  ]
}

async function checkCluster(options: { json?: boolean; namespace?: string }): Promise<number> {
  const { connect } = await import('../../../../trials/launchers/kubernetes/api/connect.ts')
  const { inspectCluster } = await import(
    '../../../../trials/launchers/kubernetes/gpus/cluster-facts.ts'
  )
  const api = await connect(options.namespace)
  try {
    const facts = await inspectCluster(api)
    const lines = () =>
      formatFindings(listClusterFindings(facts), detectStyle(process.stdout, process.env)).join(
        '\n',
      )
    process.stdout.write(`${options.json ? JSON.stringify(facts, null, 2) : lines()}\n`)
    return exitCodes.ok
  } finally {
    api.close()
  }
}

/** With backend 'kubernetes', checks the cluster instead of this machine. */
export async function doctor(options: {
  json?: boolean
  backend?: string
  namespace?: string
}): Promise<number> {
  if (options.backend === 'kubernetes') return checkCluster(options)
  const machine = await inspectMachine()
  if (options.json) {
    process.stdout.write(`${JSON.stringify(machine, null, 2)}\n`)
    return exitCodes.ok
  }
  const style = detectStyle(process.stdout, process.env)
  process.stdout.write(`${formatFindings(listFindings(machine), style).join('\n')}\n`)
  return exitCodes.ok
}

function formatFindings(findings: readonly Finding[], style: Style): string[] {
  const lines = formatTable(findings.map((f) => [f.what, f.found]))
  return lines.map((line, i) => {
    const ok = findings[i]?.ok === true
    return `${paint(glyph(ok ? 'done' : 'bullet', style), ok ? 'green' : 'yellow', style)} ${line}`
  })
}
