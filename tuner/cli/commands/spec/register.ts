import type { Command } from 'commander'
import { selectableServers } from '../../../../reports/figures.ts'
import { specTargets } from '../../../../reports/specs/index.ts'
import { autoscalers, kserveVariants } from '../../../../reports/specs/target.ts'
import { gpuSchemes } from '../../../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import { createStoreOption } from '../command-options.ts'
import type { SpecFlags } from './run.ts'

/** `tune spec`: writes deployment specs of the recommendation or of any trial. */
export function registerSpec(program: Command): void {
  program
    .command('spec')
    .description('write the deployment spec of the recommended configuration or of any trial')
    .argument('[experiment]', 'id, as in tune list (default: the newest)')
    .option('--target <name>', specTargets.join(' | '), 'kubernetes')
    .option('--trial <n>', 'use this trial instead of the recommended one')
    .option('--out <folder>', 'write the files there (default: print them)')
    .option(
      '--patch <file>',
      'set the tuned values in this manifest (YAML or JSON) and change nothing else; prints the result, and the changes on stderr',
    )
    .option('--write', 'with --patch: change the file in place')
    .option(
      '--container <name>',
      'with --patch: the container to change if several qualify: NAME or KIND/OBJECT/NAME',
    )
    .option(
      '--image <image>',
      'container image of the predictor; of a pipeline one for all stages, or STAGE=IMAGE,...',
    )
    .option(
      '--model-uri <uri>',
      'address of the weights, e.g. s3://bucket/model; of a pipeline STAGE=URI,...',
    )
    .option('--model-version <version>', 'version to serve: a number, latest or all')
    .option(
      '--server <kind>',
      `${['custom', ...selectableServers].join(' | ')}: the server to deploy (default: the measured one)`,
    )
    .option('--gpu-scheme <name>', `${gpuSchemes.join(' | ')} (default: by the GPU share)`)
    .option('--autoscaler <kind>', `kubernetes: ${autoscalers.join(' | ')} (default: hpa)`)
    .option('--variant <mode>', `kserve: ${kserveVariants.join(' | ')} (default: standard)`)
    .option('--namespace <name>', 'namespace of the objects (default: not set)')
    .option(
      '--prometheus <url>',
      'address of the Prometheus that KEDA queries for the request rate',
    )
    .option('--triton-backend <name>', "triton: the model's backend (default: onnxruntime)")
    .option('--import-path <module:app>', 'rayservice: import path of the application')
    .option('--gpus-per-node <n>', 'lws: GPUs per node; a replica spans several nodes (default: 8)')
    .option(
      '--tuner-image <image>',
      'rollout: image of tune for the analysis of the canary (default: tune:0.1.0, built from deploy/Dockerfile)',
    )
    .option('--rps <rate>', 'demand that sizes the replicas, requests per second')
    .option('--headroom <share>', 'share of the capacity to keep free, e.g. 20%')
    .option('--min-quality <number>', 'exclude model variants below this quality')
    .option('--min-replicas <n>', 'minimum replicas (default: enough for the demand)')
    .option('--max-replicas <n>', 'maximum replicas (default: twice the demand)')
    .option('--slo <slo>', "rank by another SLO, e.g. 30ms or 'p95<80ms'")
    .option('--prices <file>', 'another price book (YAML)')
    .addOption(createStoreOption())
    .addHelpText(
      'after',
      `
Examples:
  tune spec --target kubernetes --rps 500 --image registry.example/bert:7 > deployment.yaml
  tune spec --target kserve --variant keda --server triton --model-uri s3://models/bert
  tune spec --target rollout --rps 500 --image registry.example/bert:7 --tuner-image registry.example/tune:0.1.0
  tune spec --patch deployment.yaml --container server --write`,
    )
    .action(async (id: string | undefined, flags: SpecFlags) => {
      const { spec } = await import('./run.ts')
      process.exitCode = await spec(id, flags)
    })
}
