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
    .requiredOption('--url <url>', 'where it listens, e.g. http://127.0.0.1:8000')
    .requiredOption(
      '--slo <slo>',
      "the SLO, e.g. 50ms (p99) or 'p95<80ms'; of streamed answers also several, of which a good request keeps all: 'p90 ttft<200ms tpot<30ms'",
      (value: string, before: string | undefined) =>
        before === undefined ? value : `${before}, ${value}`,
    )
    .option('--model <name>', 'model it serves', 'model')
    .option('--protocol <name>', `${protocolNames.join(', ')} (default: asks the server)`)
    .option('--error-rate <share>', 'highest tolerated share of failed requests', '0.1%')
    .option(
      '--rate <rate>',
      'test only this rate, e.g. 200rps, or several one after the other: 1rps,2rps,4rps (default: search for the capacity)',
    )
    .option(
      '--concurrency <numbers>',
      'closed loops of so many requests at a time, one after the other, e.g. 1,2,4,8,16',
    )
    .option(
      '--arrivals <kind>',
      'of the steady window: poisson, constant, gamma:CV, on-off:ON/OFF (e.g. on-off:1s/4s), or trace:FILE',
      'poisson',
    )
    .option('--duration <time>', 'length of the steady window, and of each load of a sweep', '10s')
    .option(
      '--effort <name>',
      'of the search: quick (3 s), standard (12 s) or thorough (90 s)',
      'standard',
    )
    .option(
      '--payload <path>',
      'request bodies: JSON Lines, .txt (one text a line), a folder of pictures, conversations (ShareGPT), or one file that is the whole request, e.g. clip.wav (default: made from what the server says of the model)',
    )
    .option(
      '--items <numbers>',
      "items of one request: 4, 1..16, '1:70, 8:30' (weights) or lognormal:4,0.6 (default: 1)",
    )
    .option(
      '--input-tokens <length>',
      'openai: of a prompt: 512, 100..500, normal:512,128 or lognormal:120,0.9 (default)',
    )
    .option(
      '--output-tokens <length>',
      'openai: of an answer, likewise (default: lognormal:160,0.7)',
    )
    .option(
      '--body <json>',
      'body for --protocol json, with {{text}}, {{image}} and {{int}} filled in, or {{texts}}, ... as lists',
    )
    .option(
      '--content-type <type>',
      "of --body, or of a --payload that is one whole request, e.g. image/jpeg with --body '{{image}}' (default: application/json; of a file by its name)",
    )
    .option(
      '--form <name=value...>',
      "fields of multipart/form-data in place of --body, as curl has them, e.g. 'file=@clip.wav' or 'file={{image}}'",
    )
    .option('--path <path>', "path of the inference call (default: the protocol's)")
    .option(
      '--header <header...>',
      "sent with every request, e.g. 'Authorization: Bearer x'; gRPC metadata alike",
    )
    .option('--ca <file>', 'https and grpcs: certificates of the authorities to trust, PEM')
    .option(
      '--cert <file>',
      "https and grpcs: the client's own certificate, PEM, where the server asks for one",
    )
    .option('--key <file>', 'the key of --cert, PEM, not encrypted')
    .option('--insecure-skip-verify', 'skip TLS certificate checks')
    .option('--timeout <time>', 'deadline of a request (default: 10s, of a streamed answer 2m)')
    .option('--http2', 'HTTP/2: over TLS by ALPN, over plain TCP by prior knowledge')
    .option('--seed <n>', 'seed of arrivals and payload', '1')
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
