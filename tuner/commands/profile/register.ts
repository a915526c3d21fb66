import type { Command } from 'commander'
import { protocolNames } from '../../../profiler/protocols/protocol-table.ts'
import type { ProfileFlags } from './profile-flags.ts'

/** `tune profile`: load-tests a server that is already there. */
export function registerProfile(program: Command): void {
  program
    .command('profile')
    .description(
      'load-test a running server: its capacity under an SLO, or its latency at one rate',
    )
    .requiredOption('--url <url>', 'URL of the server, e.g. http://127.0.0.1:8000')
    .requiredOption(
      '--slo <slo>',
      "latency SLO: 50ms (p99), 'p95<80ms'; for streamed answers also several limits, all of which a good request meets: 'p90 ttft<200ms tpot<30ms'",
      (value: string, before: string | undefined) =>
        before === undefined ? value : `${before}, ${value}`,
    )
    .option('--model <name>', 'name of the model', 'model')
    .option('--protocol <name>', `${protocolNames.join(', ')} (default: asks the server)`)
    .option('--error-rate <share>', 'maximum share of failed requests', '0.1%')
    .option(
      '--rate <rate>',
      'test this rate, e.g. 200rps, or a sweep: 1rps,2rps,4rps (default: search for the capacity)',
    )
    .option(
      '--concurrency <numbers>',
      'sweep of closed loops with this many requests at a time, e.g. 1,2,4,8,16',
    )
    .option(
      '--arrivals <kind>',
      'arrival process of the steady window: poisson, constant, gamma:CV, on-off:ON/OFF (e.g. on-off:1s/4s), or trace:FILE',
      'poisson',
    )
    .option('--duration <time>', 'length of the steady window, and of each load of a sweep', '10s')
    .option(
      '--effort <name>',
      'effort of the search: quick (3 s), standard (12 s) or thorough (90 s)',
      'standard',
    )
    .option(
      '--payload <path>',
      "request bodies: JSON Lines, .txt (a text per line), a folder of images, conversations (ShareGPT), or one file that is the whole request, e.g. clip.wav (default: generated from the server's metadata)",
    )
    .option(
      '--items <numbers>',
      "items per request: 4, 1..16, '1:70, 8:30' (weights) or lognormal:4,0.6 (default: 1)",
    )
    .option(
      '--input-tokens <length>',
      'openai: tokens of a prompt: 512, 100..500 or normal:512,128 (default: lognormal:120,0.9)',
    )
    .option(
      '--output-tokens <length>',
      'openai: tokens of an answer, likewise (default: lognormal:160,0.7)',
    )
    .option(
      '--body <json>',
      'request body of --protocol json, with placeholders {{text}}, {{image}}, {{int}}, or {{texts}}, ... for lists',
    )
    .option(
      '--content-type <type>',
      "content type of --body or of a --payload that is a whole request: image/jpeg with --body '{{image}}' (default: application/json; for files by their name)",
    )
    .option(
      '--form <name=value...>',
      "fields of a multipart form instead of --body, as in curl: 'file=@clip.wav', 'file={{image}}'",
    )
    .option('--path <path>', "path of the inference call (default: the protocol's)")
    .option(
      '--header <header...>',
      "HTTP header or gRPC metadata of every request, e.g. 'Authorization: Bearer x'",
    )
    .option('--ca <file>', 'https and grpcs: PEM file of certificate authorities to trust')
    .option('--cert <file>', 'https and grpcs: PEM file of the client certificate')
    .option('--key <file>', 'PEM file of the unencrypted key of --cert')
    .option('--insecure-skip-verify', 'skip TLS certificate checks')
    .option('--timeout <time>', 'timeout of a request (default: 10s, of a streamed answer 2m)')
    .option('--http2', 'use HTTP/2: over TLS by ALPN, over plain TCP by prior knowledge')
    .option('--seed <n>', 'random seed of arrivals and payload', '1')
    .option('--json', 'print one JSON document on stdout')
    .option('--html <file>', 'write a report')
    .option('--csv <file>', 'write the load points')
    .addHelpText(
      'after',
      `
Examples:
  tune profile --url http://127.0.0.1:8000 --model bert --slo 50ms
  tune profile --url http://127.0.0.1:8000 --model bert --slo 'p95<80ms' --rate 200rps --duration 60s --json
  tune profile --url http://127.0.0.1:8000 --model llama --slo 'p90 ttft<500ms tpot<40ms' --concurrency 1,2,4,8,16

Exit codes: 0 the SLO is met; 1 failure; 2 usage; 3 the SLO cannot be met, or is not at --rate, or at no load of a sweep; 130 interrupted.`,
    )
    .action(async (flags: ProfileFlags) => {
      const { profile } = await import('./run.ts')
      process.exitCode = await profile(flags)
    })
}
