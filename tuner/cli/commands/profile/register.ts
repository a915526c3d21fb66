import type { Command } from 'commander'
import { protocolNames } from '../../../../profiler/protocols/protocol-table.ts'
import type { ProfileFlags } from './profile-flags.ts'

/** `tune profile`: load-tests a running server. */
export function registerProfile(program: Command): void {
  program
    .command('profile')
    .description(
      'load-test a running server: its capacity under an SLO, or its latency at one rate',
    )
    .requiredOption('--url <url>', 'URL of the server, e.g. http://127.0.0.1:8000')
    .requiredOption(
      '--slo <slo>',
      "the SLO, e.g. 50ms (p99) or 'p95<80ms'; streamed answers may have several limits, which a good request must all meet: 'p90 ttft<200ms tpot<30ms'",
      (value: string, before: string | undefined) =>
        before === undefined ? value : `${before}, ${value}`,
    )
    .option('--model <name>', 'name of the served model', 'model')
    .option('--protocol <name>', `${protocolNames.join(', ')} (default: detected)`)
    .option('--error-rate <share>', 'maximum share of failed requests', '0.1%')
    .option(
      '--rate <rate>',
      'test only this rate, e.g. 200rps, or several rates in turn: 1rps,2rps,4rps (default: search for the capacity)',
    )
    .option(
      '--concurrency <numbers>',
      'sweep of closed loops with these numbers of concurrent requests, e.g. 1,2,4,8,16',
    )
    .option(
      '--arrivals <kind>',
      'arrivals in the steady window: poisson, constant, gamma:CV, on-off:ON/OFF (e.g. on-off:1s/4s), or trace:FILE',
      'poisson',
    )
    .option('--duration <time>', 'length of the steady window and of each load of a sweep', '10s')
    .option(
      '--effort <name>',
      'effort of the search: quick (3 s), standard (12 s) or thorough (90 s)',
      'standard',
    )
    .option(
      '--payload <path>',
      'request bodies: JSON Lines, .txt (one text per line), a folder of images, conversations (ShareGPT), or one file that is the whole request, e.g. clip.wav (default: generated for the model)',
    )
    .option(
      '--items <numbers>',
      "items per request: 4, 1..16, '1:70, 8:30' (weights) or lognormal:4,0.6 (default: 1)",
    )
    .option(
      '--input-tokens <length>',
      'openai: length of a prompt: 512, 100..500, normal:512,128 or lognormal:120,0.9 (default)',
    )
    .option(
      '--output-tokens <length>',
      'openai: length of an answer, in the same forms (default: lognormal:160,0.7)',
    )
    .option(
      '--body <json>',
      'request body for --protocol json, with placeholders {{text}}, {{image}} and {{int}}, or {{texts}}, ... for lists',
    )
    .option(
      '--content-type <type>',
      "content type of --body or of a --payload that is a whole request, e.g. image/jpeg with --body '{{image}}' (default: application/json; for files by their name)",
    )
    .option(
      '--form <name=value...>',
      "field of a multipart form instead of --body, as in curl: 'file=@clip.wav' or 'file={{image}}'; repeatable",
    )
    .option('--path <path>', "path of the inference call (default: the protocol's)")
    .option(
      '--header <header...>',
      "HTTP header or gRPC metadata of every request: 'Authorization: Bearer x'; repeatable",
    )
    .option('--ca <file>', 'https and grpcs: PEM file of certificate authorities to trust')
    .option(
      '--cert <file>',
      'https and grpcs: PEM file of the client certificate, for servers that require one',
    )
    .option('--key <file>', 'PEM file of the unencrypted key of --cert')
    .option('--insecure-skip-verify', 'skip TLS certificate checks')
    .option('--timeout <time>', 'timeout of one request (default: 10s, for a streamed answer 2m)')
    .option('--http2', 'HTTP/2: over TLS by ALPN, over plain TCP by prior knowledge')
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

Exit codes: 0 the SLO is met; 1 failure; 2 usage; 3 the SLO is not met (at --rate, or at any load of a sweep); 130 interrupted.`,
    )
    .action(async (flags: ProfileFlags) => {
      const { profile } = await import('./run.ts')
      process.exitCode = await profile(flags)
    })
}
