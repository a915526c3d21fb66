/** docs/reference/exit-codes.md. */
import { type Conclusion, conclusions } from '../../reports/recommendation/types.ts'
import { exitCodeMeanings, exitCodes, resolveExitCode } from '../exit-codes.ts'
import { code, sentence, table } from './markdown.ts'

export const exitCodesPage = (): string =>
  [
    '# Exit codes',
    'Every command ends with one of these codes.',
    table(
      ['code', 'meaning'],
      Object.entries(exitCodes).map(([name, value]) => [
        code(String(value)),
        exitCodeMeanings[name as keyof typeof exitCodes],
      ]),
    ),
    '## Codes of a recommendation',
    '`tune`, `tune resume` and `tune show` end with the code of their conclusion, the field `conclusion` of\n[`recommendation.json`](results.md#recommendationjson).',
    table(
      ['conclusion', 'code', 'meaning'],
      Object.entries(conclusions).map(([conclusion, meaning]) => [
        code(conclusion),
        code(String(resolveExitCode({ conclusion: conclusion as Conclusion }))),
        sentence(meaning),
      ]),
    ),
    '## Codes with a meaning of their own',
    table(
      ['command', 'codes'],
      commands.map(([command, meaning]) => [
        `[${command}](command-line.md#${formatAnchor(command)})`,
        meaning,
      ]),
    ),
  ].join('\n\n')

const formatAnchor = (command: string): string => command.split(' --')[0]!.replaceAll(' ', '-')

const commands: readonly (readonly [command: string, meaning: string])[] = [
  ['tune init', '0 the file was written and its server answered; 1 the server did not answer'],
  ['tune profile', '3 the SLO cannot be met, or is not met at `--rate` or at any load of a sweep'],
  [
    'tune verify',
    '0 the recommendation holds; 4 it does not; 1 the measurement gave no answer; 3 there is nothing to verify',
  ],
  ['tune estimate', '3 no configuration is predicted to meet the SLO'],
  ['tune replay', '3 no row that was looked up meets the limit'],
  [
    'tune ci',
    '0 no check failed; 3 nothing meets the SLO; 4 the best is not confirmed; 6 more expensive than allowed',
  ],
  [
    'tune watch --once',
    '0 the recommendation holds; 3 production violates the SLO; 5 it no longer holds for another reason; 1 production could not be read',
  ],
  ['tune store check', '1 something in the store is damaged'],
  ['tune store backup', '1 something could not be copied'],
  ['tune predictor', '12 out of device memory; 98 the port is taken'],
]
