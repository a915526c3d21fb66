/** Files of `tune fleet` to begin from, in the forms that they may have. */
export const fleetSeeds = {
  files: [
    `gpus:\n  A100-80GB: {count: 8}\n  L4:\nmodels:\n  bert: {experiment: bert-4f2a, demand: '0-8:20, 8-20:800, 20-24:60'}\n  resnet50: {table: resnet50.csv, gpu: A100-80GB, slo: 200ms, demand: 2200}\nheadroom: 10%\nspare: 1\napart: [[bert, resnet50]]\n`,
    `gpus: {A100-80GB: {perNode: 4}}\nmodels:\n  bert: {table: bert.csv, slo: 200ms, demand: 20, image: 'x:1', port: 9000, health: /h}\ntimezone: Europe/Berlin\n`,
    `gpus: {L4: {mps: true}, H100: }\nmodels:\n  a: {llm: {model: llama-3.1-8b, inputTokens: 300, outputTokens: 100..300, settings: {maxNumSeqs: 64}}, slo: p90 tpot<80ms, demand: 20}\n  c: {table: c.csv, builtin: bert, demand: 9}\n  b: {classes: {short: {share: 70%, table: s.csv}, long: {share: 30%, experiment: long-1, slo: 2s}}, demand: 5}\n`,
    `gpus: {L4: }\nturns: byHour\nendsEarly: 15m\nmodels:\n  a: {table: a.csv, slo: 2s, demand: '0-8:0, 8-24:5', load: 1m30s}\n  b: {table: b.csv, slo: 30s, demand: 0.01, turns: onDemand, load: 90s, wake: 1500ms}\n  c: {experiment: c-1, demand: 3, turns: never}\n`,
  ],
  tables: [
    'gpu,slice,throughputRps,latencyMs,batch\nA100-80GB,1g.10gb,120.5,40,8\nA100-80GB,whole,900,25,16\nA100-80GB,3,400,infeasible,4\n',
    'gpu,throughputRps,latencyMs,loadS\nL4,20,900,75.5\nL4,30,1800,\n',
    'gpu,gpuSharePercent,throughputRps,latencyMs,memoryMiB\nV100,40,505,20,2100\nV100,100,900,15,2100\n',
  ],
  pairs: [
    'gpu,model,beside,othersSharePercent,aloneMs,besideMs\nV100,a,b,50,20.2,22.1\nV100,a,b+c,60,20.2,24\n',
    'gpu,model,beside,othersSharePercent,aloneMs,besideMs,provenance\r\nT4,a,b,49.3,14.608,15.706,emulated\r\n',
  ],
} as const
