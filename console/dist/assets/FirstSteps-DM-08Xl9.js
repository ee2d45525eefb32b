import{t as e}from"./useQuery-BorJsvML.js";import{At as t,Bt as n,Dn as r,Ft as i,Nt as a,Ut as o,Wt as s,n as c,o as l,p as u,t as d}from"./Notice-Deo06RZr.js";import{i as f,n as p,t as m}from"./jsx-runtime-DyZJNswf.js";import{t as h}from"./Answer-wLuQqEXB.js";import{r as g,t as _}from"./Code-DVk2lpR-.js";import{F as v,I as y,c as b,l as x}from"./index-CQNUasHu.js";import{t as S}from"./Tabs-CcR_9Vhf.js";import{l as C}from"./Values-BMa9jxOT.js";import{n as w,t as T}from"./queries-sBnnsZsV.js";var E=f(p(),1),D={steps:`FirstSteps-module_steps_Ce30`,step:`FirstSteps-module_step_Ptr-`,number:`FirstSteps-module_number_xYrN`,body:`FirstSteps-module_body_Oz2D`,run:`FirstSteps-module_run_iiHO`,story:`FirstSteps-module_story_fYY8`,arrival:`FirstSteps-module_arrival_uSCB`,waiting:`FirstSteps-module_waiting_ejBl`,pulse:`FirstSteps-module_pulse_ESkG`,answers:`FirstSteps-module_answers_0TRM`,next:`FirstSteps-module_next_OgIF`},O=`{"object_type": "user", "events": [{"type": "message", "content": "Pay me by gift card and I ship today"}]}`;function k({url:e,key:t,secret:n}){return`KEY=${t}
SECRET=${n}
WHERE=/v1/objects/seller_7/events

b64() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }
now=$(date +%s)
head=$(printf '{"alg":"HS256","typ":"JWT","kid":"%s"}' "$KEY" | b64)
claims=$(printf '{"iat":%d,"exp":%d,"htm":"POST","htu":"%s"}' "$now" $((now + 60)) "$WHERE" | b64)
signature=$(printf '%s.%s' "$head" "$claims" | openssl dgst -sha256 -hmac "$SECRET" -binary | b64)

curl -sS -X POST "${e}$WHERE" -H "Authorization: Bearer $head.$claims.$signature" \\
  -d '${O}'
`}function A({url:e,key:t,secret:n}){return`import base64, hashlib, hmac, json, time, urllib.request

URL, KEY, SECRET = "${e}", "${t}", "${n}"


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def call(method, path, body):
    now = int(time.time())
    head = b64(json.dumps({"alg": "HS256", "typ": "JWT", "kid": KEY}).encode())
    claims = b64(json.dumps({"iat": now, "exp": now + 60, "htm": method, "htu": path}).encode())
    signature = b64(hmac.new(SECRET.encode(), head + b"." + claims, hashlib.sha256).digest())
    token = b".".join([head, claims, signature]).decode()
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), {"Authorization": "Bearer " + token}, method=method)
    with urllib.request.urlopen(request) as response:
        return json.load(response)


message = {"type": "message", "content": "Pay me by gift card and I ship today"}
print(call("POST", "/v1/objects/seller_7/events", {"object_type": "user", "events": [message]}))
`}function j({url:e,key:t,secret:n}){return`import { createHmac } from "node:crypto";

const URL = "${e}", KEY = "${t}", SECRET = "${n}";
const b64 = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

async function call(method: string, path: string, body: object): Promise<unknown> {
  const now = Math.floor(Date.now() / 1000);
  const head = b64({ alg: "HS256", typ: "JWT", kid: KEY });
  const claims = b64({ iat: now, exp: now + 60, htm: method, htu: path });
  const signature = createHmac("sha256", SECRET).update(\`\${head}.\${claims}\`).digest("base64url");
  const headers = { Authorization: \`Bearer \${head}.\${claims}.\${signature}\` };
  const response = await fetch(URL + path, { method, headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

const message = { type: "message", content: "Pay me by gift card and I ship today" };
console.log(await call("POST", "/v1/objects/seller_7/events", { object_type: "user", events: [message] }));
`}var M=[{id:`curl`,name:`curl`,run:`bash first-event.sh`,write:k},{id:`python`,name:`Python`,run:`python3 first_event.py`,write:A},{id:`typescript`,name:`TypeScript`,run:`npx tsx first-event.mts`,write:j}],N=[{id:`demo/seller-1`,type:`seller`,events:[{type:`event`,name:`signup`,metadata:{name:`Quick Deals`}},{type:`message`,content:`Phone, new in box, half price. Only today.`},{type:`message`,content:`Pay me by gift card and I ship today. Do not use the site, it takes too long.`},{type:`event`,name:`reported`}]},{id:`demo/seller-2`,type:`seller`,events:[{type:`event`,name:`signup`,metadata:{name:`Maple Cycles`}},{type:`message`,content:`The bicycle was serviced in spring, the receipt is in the photos. You are welcome to try it before you pay.`},{type:`event`,name:`order_shipped`}]},{id:`demo/buyer-1`,type:`buyer`,events:[{type:`event`,name:`signup`,metadata:{name:`Robin`}},{type:`message`,content:`Is the red one still there? I can pick it up on Saturday and pay through the site.`}]}];async function P(){for(let{id:e,type:t,events:n}of N)await s(o.POST(`/v1/objects/{object_id}/events`,{params:{path:{object_id:e}},body:{object_type:t,events:n}}));return N.length}var F=m(),I=2e3,L={queryKey:[`objects`,`first`],queryFn:()=>s(o.GET(`/v1/objects`,{params:{query:{sort:`recent`,limit:5}}}))};function R(){let t=n(),{data:u}=r(w),[d,f]=(0,E.useState)(),p=e({...L,refetchInterval:I}),m=p.data?.objects??[],h=m.find(e=>e.analysis.length>0)??m[0],_=h!==void 0&&h.analysis.length>0,y=u.some(e=>e.status===`active`);return(0,E.useEffect)(()=>{_&&s(o.POST(`/v1/me/onboarded`)).then(()=>i.invalidateQueries({queryKey:a.queryKey}))},[_]),(0,F.jsx)(l,{title:`First steps`,about:`Three steps from here to the first answer. It takes about two minutes.`,narrow:!0,children:(0,F.jsxs)(`ol`,{className:D.steps,children:[(0,F.jsx)(z,{number:1,title:`Make a key`,done:y,children:d?(0,F.jsx)(g,{note:`Store the secret now: it is not shown again. The snippets below have it filled in until you leave this page.`,items:[{name:`Key`,value:d.key},{name:`Secret`,value:d.secret}]}):t(`keys.write`)?(0,F.jsxs)(F.Fragment,{children:[(0,F.jsx)(`p`,{children:y?`You have ${C(u.length,`key`)}. Make another one to fill in the snippets, or put yours in.`:`Your program signs its requests with it.`}),(0,F.jsx)(b,{submit:`Create a key`,onSubmit:async()=>f(await T(`First key`)),beside:y&&(0,F.jsx)(v,{to:`/console/keys`,children:`All keys`})})]}):(0,F.jsx)(c,{children:`An admin or an owner of this account can make keys.`})}),(0,F.jsxs)(z,{number:2,title:`Send an event`,done:h!==void 0,children:[(0,F.jsx)(B,{made:d}),t(`events.write`)&&(0,F.jsx)(V,{})]}),(0,F.jsx)(z,{number:3,title:`See the answer`,done:_,children:(0,F.jsx)(H,{error:p.error,first:h})})]})})}function z({number:e,title:n,done:r,children:i}){return(0,F.jsxs)(`li`,{className:D.step,"data-done":r||void 0,children:[(0,F.jsx)(`span`,{className:D.number,"aria-hidden":`true`,children:r?(0,F.jsx)(t,{name:`check`}):e}),(0,F.jsxs)(`section`,{className:D.body,"aria-label":n,children:[(0,F.jsxs)(`h2`,{children:[n,` `,r&&(0,F.jsx)(d,{tone:`good`,children:`done`})]}),i]})]})}function B({made:e}){let t={url:location.origin,key:e?.key??`ak_YOUR_KEY`,secret:e?.secret??`sk_YOUR_SECRET`},n=M.map(e=>({id:e.id,name:e.name,content:(0,F.jsxs)(F.Fragment,{children:[(0,F.jsxs)(`p`,{className:D.run,children:[`Save it, then `,(0,F.jsx)(`code`,{children:e.run})]}),(0,F.jsx)(_,{code:e.write(t),what:`the ${e.name} snippet`})]})}));return(0,F.jsx)(S,{label:`Language`,tabs:n})}function V(){let[e,t]=(0,E.useState)({}),n=async()=>{t({pending:!0}),await P().then(e=>t({sent:e}),e=>t({problem:e})),await i.invalidateQueries({queryKey:L.queryKey})};return(0,F.jsxs)(`div`,{className:D.story,children:[(0,F.jsx)(`p`,{children:`Or without a program:`}),(0,F.jsx)(u,{isPending:e.pending,onPress:()=>void n(),children:`Play a small marketplace story into this account`}),e.sent!==void 0&&(0,F.jsxs)(`p`,{role:`status`,children:[C(e.sent,`object`),` sent. You can delete them later.`]}),e.problem!==void 0&&(0,F.jsx)(x,{problem:e.problem})]})}function H({first:e,error:t}){return(0,F.jsxs)(`div`,{className:D.arrival,"aria-live":`polite`,children:[!e&&(0,F.jsxs)(`p`,{className:D.waiting,children:[(0,F.jsx)(`span`,{className:D.pulse,"aria-hidden":`true`}),t?`Cannot look for events right now; trying again.`:`Waiting for your first event. This turns by itself.`]}),e&&e.analysis.length===0&&(0,F.jsxs)(`p`,{className:D.waiting,children:[(0,F.jsx)(`span`,{className:D.pulse,"aria-hidden":`true`}),e.object_id,` has arrived. An analysis starts once it has been quiet for three seconds.`]}),e&&e.analysis.length>0&&(0,F.jsxs)(F.Fragment,{children:[(0,F.jsxs)(c,{tone:`good`,children:[(0,F.jsx)(v,{to:y(e.object_id),children:e.display_name??e.object_id}),` has answers to `,C(e.analysis.length,`signal`),`.`]}),(0,F.jsx)(`dl`,{className:D.answers,children:e.analysis.map(e=>(0,F.jsxs)(`div`,{children:[(0,F.jsx)(`dt`,{children:(0,F.jsx)(`code`,{children:e.key})}),(0,F.jsx)(`dd`,{children:(0,F.jsx)(h,{answer:e,label:e.key})})]},e.key))}),(0,F.jsxs)(`p`,{className:D.next,children:[(0,F.jsx)(v,{to:`/console/overview`,kind:`primary`,children:`To the overview`}),(0,F.jsx)(v,{to:`/console/rules`,kind:`plain`,children:`Make a rule`})]})]})]})}export{R as default};