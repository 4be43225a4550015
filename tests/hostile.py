"""Drawings that a stranger's record could bring. Where one is run, the page's title becomes "run"."""

RUN = "document.title='run'"
OPEN = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
HOSTILE = [
    # A pattern let these through.
    f'<svg x="1"></svg><SCRIPT>{RUN}</SCRIPT>',
    f'<svg x="1"/onload={RUN}></svg>',
    f'<svg ONLOAD="{RUN}"></svg>',
    f'<svg onload ="{RUN}"></svg>',
    f"<svg x='1'></svg><img src=x OnError={RUN}>",
    f'<svg x="1"></svg><iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    '<svg x="1"></svg><meta http-equiv=refresh content="0;url=about:blank">',
    '<svg x="1"></svg><form action="https://example.org/"><input name=q></form>',
    f"<svg x='1'><a href='java&#115;cript:{RUN}'><text>Next</text></a></svg>",
    # And it stopped these.
    f"{OPEN}><script>{RUN}</script></svg>",
    f'{OPEN}><foreignObject><img src="x" onerror="{RUN}"/></foreignObject></svg>',
    # XML reads these otherwise than HTML does.
    f"{OPEN}><!--><script>{RUN}</script>--></svg>",
    f"{OPEN}><!-- --!><script>{RUN}</script> --></svg>",
    f"{OPEN}><title><![CDATA[<script>{RUN}</script>]]></title></svg>",
    f"{OPEN}><desc><![CDATA[<img src=x onerror={RUN}>]]></desc></svg>",
    f"{OPEN}><?x ><script>{RUN}</script>?></svg>",
    f"{OPEN}><style><![CDATA[</style><script>{RUN}</script>]]></style></svg>",
    f'<svg xmlns="urn:x" xmlns:s="http://www.w3.org/2000/svg"><s:script>{RUN}</s:script></svg>',
    f'<svg xmlns="urn:x"><script>{RUN}</script></svg>',
    f'<svg ><!DOCTYPE svg [<!ENTITY x "<script>{RUN}</script>">]>&x;</svg>',
    # What a drawing can run, load, cover or lead to.
    f'{OPEN}><set attributeName="onmouseover" to="{RUN}" begin="0s"/></svg>',
    f'{OPEN}><animate onbegin="{RUN}" attributeName="x" dur="1s"/></svg>',
    f'{OPEN}><a xlink:href="javascript:{RUN}"><animate attributeName="href" values="javascript:{RUN}"/></a></svg>',
    f'{OPEN}><script xlink:href="data:text/javascript,{RUN}"/></svg>',
    f'{OPEN}><use xlink:href="data:image/svg+xml,{OPEN}id=%22x%22><script>{RUN}</script></svg>#x"/></svg>'.replace(
        "<script>", "&lt;script&gt;"
    ),
    f'{OPEN}><image xlink:href="data:image/svg+xml,&lt;svg onload=&quot;{RUN}&quot;/&gt;"/></svg>',
    f'{OPEN}><image xlink:href="x" onerror="{RUN}"/></svg>',
    f'{OPEN}tabindex="0" autofocus="" onfocus="{RUN}"></svg>',
    f'{OPEN}><g><handler xmlns:ev="http://www.w3.org/2001/xml-events" ev:event="load">{RUN}</handler></g></svg>',
    f'{OPEN}><p></p><img src="x" onerror="{RUN}"/></svg>',
    f"{OPEN}><math><mtext><style><img src=x onerror={RUN}></style></mtext></math></svg>",
    f'{OPEN}><text>a</text></svg><object data="data:text/html,<script>parent.{RUN}</script>"></object>',
    '<svg x="1"><image href="https://example.org/x.png"/></svg>',
    '<svg x="1"><use href="//example.org/x.svg#m0123456789"/></svg>',
    '<svg x="1"><rect style="fill: url(https://example.org/x.svg#m)"/></svg>',
    r'<svg x="1"><rect style="fill: u\72l(//example.org/x.svg#m)"/></svg>',
    '<svg x="1"><rect style="position: fixed; inset: 0"/></svg>',
    '<svg x="1"><style>* { display: none }</style></svg>',
    "<svg x='1'><style>@import '//example.org/x.css'</style></svg>",
    '<svg x="1"><rect id="main-content"/></svg>',
    '<svg x="1"><rect class="fl-mine"/></svg>',
    '<svg x="1"><rect',
    "<SVG ></SVG>",
]
