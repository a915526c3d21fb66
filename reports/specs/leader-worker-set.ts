/**
 * LeaderWorkerSet v1: one replica of a language model over several nodes, a pod on each, as the
 * project's own example of vLLM has it. The leader's pod begins a Ray cluster, waits for the
 * workers' and serves.
 */
import { labelsOf } from './available.ts'
import { heldOf } from './held.ts'
import { mostGpus } from './language-servers.ts'
import { annotationsOf, type Manifest, manifestsYaml, type SpecFile } from './manifest.ts'
import { podStorage, storageOf } from './model-storage.ts'
import { fileMounts } from './pod.ts'
import { claimTemplates, specGpus } from './pod-gpus.ts'
import { podNotes, podTemplate } from './pod-template.ts'
import { wholeContainer } from './server-pod.ts'
import type { Serving, WholeContainer } from './serving.ts'
import { SpecError } from './spec-error.ts'
import type { SpecOptions, SpecTarget } from './target.ts'

/** The controller's own headless service has the name of the set. */
const serviceName = ({ name }: Pick<Serving, 'name'>): string => `${name}-leader`

export const target: SpecTarget = {
  title: 'LeaderWorkerSet',
  files: ['leaderworkerset.yaml'],
  writes:
    'LeaderWorkerSet v1: each replica spans several nodes of `--gpus-per-node` GPUs; and the Service of the leaders',
  needs: 'the LeaderWorkerSet controller',
  scaledBy: 'a fixed number of replicas',
  servers: ['vllm'],
  takes: ['gpusPerNode'],
  namespaced: true,
  host: serviceName,
  render: leaderWorkerSetSpec,
}

/** In the image of the stated version. */
const script = '/vllm-workspace/examples/online_serving/multi-node-serving.sh'

interface Nodes {
  readonly nodes: number
  readonly perNode: number
}

/** @throws SpecError where one node is enough, or the GPUs do not divide */
function nodesOf({ resources: { gpus, gpuShare } }: Serving, perNode: number): Nodes {
  if (gpus <= perNode)
    throw new SpecError(
      `one replica has ${gpus} ${gpus === 1 ? 'GPU' : 'GPUs'}, and a node has ${perNode}: a LeaderWorkerSet spreads a replica over several nodes`,
      'choose --target kubernetes, or name the GPUs of a node, such as --gpus-per-node 4',
    )
  if (gpus % perNode !== 0 || gpuShare < 1)
    throw new SpecError(
      `${gpus} GPUs do not fill whole nodes of ${perNode} GPUs`,
      'give --gpus-per-node a divisor of the GPUs',
    )
  return { nodes: gpus / perNode, perNode }
}

/** What one node holds of a replica. Each node reads all the weights, and keeps its part. */
function nodeServing(serving: Serving, { nodes, perNode }: Nodes): Serving {
  const { evidence, deployed, figures, configuration, modelUri } = serving
  const resources = {
    ...serving.resources,
    gpus: perNode,
    cpuCores: serving.resources.cpuCores / nodes,
  }
  return {
    ...serving,
    resources,
    held: heldOf(evidence, deployed, figures.hold, resources, configuration, modelUri),
  }
}

/** Over GPUs of a node tensor parallel, over nodes pipeline parallel. */
function overNodes(args: readonly string[], { nodes, perNode }: Nodes): string[] {
  const others = args.filter((arg) => !/^--(tensor|pipeline)-parallel-size=/.test(arg))
  return [
    ...others,
    `--tensor-parallel-size=${perNode}`,
    `--pipeline-parallel-size=${nodes}`,
    '--distributed-executor-backend=ray',
  ]
}

function leaderWorkerSetSpec(
  serving: Serving,
  { gpusPerNode = mostGpus }: SpecOptions,
): SpecFile[] {
  const over = nodesOf(serving, gpusPerNode)
  const node = nodeServing(serving, over)
  const container = wholeContainer(node)
  const storage = podStorage(storageOf(node))
  const files = fileMounts(node, container.files)
  const waits = `--ray_init_timeout=${node.held.progressSeconds}`
  const leader = {
    ...container,
    command: [
      'sh',
      '-c',
      `bash ${script} leader --ray_cluster_size="$LWS_GROUP_SIZE" ${waits} && exec "$@"`,
      'sh',
      ...(container.command ?? []),
    ],
    args: overNodes(container.args ?? [], over),
  }
  const worker: WholeContainer = {
    ...container,
    command: [
      'sh',
      '-c',
      `exec bash ${script} worker --ray_address="$LWS_LEADER_ADDRESS" ${waits}`,
    ],
    args: [],
  }
  const labels = labelsOf(serving)
  const leading = { ...labels, role: 'leader' }
  // Pods of a group want to be near each other: nothing spreads them over zones.
  const parts = { storage, files, isScraped: false, several: false }
  // Its start begins before the last node is there.
  const starting = { ...node, held: { ...node.held, startupSeconds: node.held.progressSeconds } }
  const set: Manifest = {
    apiVersion: 'leaderworkerset.x-k8s.io/v1',
    kind: 'LeaderWorkerSet',
    metadata: { name: serving.name, labels, annotations: annotationsOf(serving) },
    spec: {
      replicas: serving.replicas,
      leaderWorkerTemplate: {
        size: over.nodes,
        restartPolicy: 'RecreateGroupOnPodRestart',
        leaderTemplate: podTemplate(starting, { ...parts, container: leader }, leading),
        workerTemplate: podTemplate(
          node,
          { ...parts, container: worker, asked: false },
          { ...labels, role: 'worker' },
        ),
      },
    },
  }
  const service: Manifest = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: serviceName(serving), labels },
    spec: { selector: leading, ports: [{ name: 'http', port: 80, targetPort: 'http' }] },
  }
  const gpu = specGpus(node.resources, serving.gpuScheme, serving.dra)
  const notes = [...podNotes(serving, { container, storage }, gpu), ...nodesNotes(serving, over)]
  const objects = [
    ...(files.configMap ? [files.configMap] : []),
    ...claimTemplates(node, gpu),
    set,
    service,
  ]
  return [{ name: 'leaderworkerset.yaml', text: manifestsYaml(serving, objects, notes) }]
}

const nodesNotes = (
  { resources: { gpus }, configuration }: Serving,
  { nodes, perNode }: Nodes,
): string[] => [
  `NOT MODELLED, NOT MEASURED: the network between the ${nodes} nodes of a replica. The figures are from ${gpus} GPUs in one machine: check them with tune verify --url once it runs`,
  `tensor parallel over the ${perNode} GPUs of a node and pipeline parallel over ${nodes} nodes, as vLLM advises; ${'gpus' in configuration ? 'the tuned configuration' : 'every trial'} was tensor parallel over all ${gpus}`,
  'needs the controller of LeaderWorkerSet 0.3 or later; the number of replicas is fixed, and a pod that stops restarts its whole group',
  'every pod fetches all weights: --model-uri pvc://CLAIM/FOLDER of a volume that many nodes can read avoids that',
]
